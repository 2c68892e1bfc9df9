"""Decides which layers the parameters of one tower are registered as.

    uses of parameters → matches → filters → plans, and generic plans for the rest

Adds no ops and registers nothing. Called by `kfac.graph_search.auto_registration`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kfac._types import Parameters, Variable
from kfac.fisher_blocks.base import as_tuple
from kfac.graph_search.filtering import (
    check_disjoint,
    filter_grouped_variable_records,
    filter_subgraph_records,
    filter_user_registered_records,
)
from kfac.graph_search.known_layers import Matches, find_matches
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.plans import Plan
from kfac.graph_search.records import (
    AmbiguousRegistrationError,
    MatchRecord,
    NotRegistrableError,
    Records,
    group,
    place_of,
    refs,
)
from kfac.graph_search.registration import plan_registration
from kfac.graph_search.tower import Tower
from kfac.registration.approximations import check_approximation
from kfac.registration.dense_layers import register_generic
from kfac.registration.layer_table import parameter_names
from kfac.registration.report import Decision
from kfac.variables import name_of

LinkedGroups = Mapping[frozenset[Variable], str | None]
"""Parameters that form one layer, with its approximation; see `define_linked_parameters`."""


class TowerPlan(NamedTuple):
    """The layers of a tower: plans sorted by name, and the readable reason for each.

    There are reasons for parameters that are not registered, too.
    """

    plans: dict[Parameters, Plan]
    decisions: list[Decision]


def plan_tower(
    tower: Tower,
    registered: Collection[Variable],
    linked_groups: LinkedGroups,
    batch: Batch,
) -> TowerPlan:
    """Decides about all parameters of a tower that the user has not registered.

    A parameter that is linked alone and belongs to no layer becomes generic, with the approximation
    of its group.

    Raises:
      AmbiguousRegistrationError: A parameter could belong to two layers; or parameters without a
        layer need a batch size, and it is unknown.
      ValueError: A linked group of several parameters is no layer; a parameter that is linked alone
        becomes generic, which does not have its approximation; the same parameters are layers of
        several kinds; or they are used more often than such a layer can be.
    """
    matches = find_matches(tower)
    reasons = _first_reasons(tower, matches)
    records = _filtered(matches, registered, linked_groups)
    records = _complete(tower, records, reasons)
    plans = _planned(records, batch, reasons)
    decisions = [Decision(key, _seen(records[key])) for key in plans]
    _check_linked(tower, plans, registered, linked_groups, reasons)
    known = frozenset(v.ref() for v in registered).union(*map(refs, plans))
    left = sorted((v for v in tower.variables if v.ref() not in known), key=place_of)
    _explain_linked_alone(left, linked_groups, reasons)
    plans |= _generic(left, batch, reasons)
    for variable in left:
        text = f"generic, because it {reasons[variable.ref()]}"
        decisions.append(Decision(variable, text, is_expected=False))
    for variable in tower.unreached:
        if variable.ref() not in known:
            text = "not registered, because no registered loss depends on it"
            decisions.append(Decision(variable, text))
    return TowerPlan({key: plans[key] for key in sorted(plans, key=place_of)}, decisions)


def _first_reasons(tower: Tower, matches: Matches) -> dict[Any, str]:
    """Returns a reason for each parameter, used if it ends up in no layer."""
    reasons = {v.ref(): "is in no layer that has all its parameters" for v in tower.variables}
    for ref, where in matches.additions.items():
        reasons[ref] = f"is added in {where!r}, but is the bias of no known layer"
    return reasons | matches.refusals


def _filtered(
    matches: Matches,
    registered: Collection[Variable],
    linked_groups: LinkedGroups,
) -> Records:
    """Returns matches such that no parameter is in two layers."""
    refused = frozenset(matches.refusals)
    records: Records = {
        key: of_key
        for key, of_key in group(matches.records).items()
        if refused.isdisjoint(refs(key))
    }
    records = filter_user_registered_records(records, registered)
    records = filter_grouped_variable_records(records, linked_groups)
    records = filter_subgraph_records(records)
    check_disjoint(records)
    return records


def _complete(tower: Tower, records: Records, reasons: dict[Any, str]) -> Records:
    """Returns the matches of parameters whose uses were all recognised."""
    complete = {}
    for params, of_key in records.items():
        more = [name_of(v) for v in as_tuple(params) if len(tower.uses(v)) > len(of_key)]
        if more:
            what = f"in {of_key[0].description}, and {more[0]} is used elsewhere, too"
            _refuse(params, f"is part of the layer {what}", reasons)
        else:
            complete[params] = of_key
    return complete


def _planned(records: Records, batch: Batch, reasons: dict[Any, str]) -> dict[Parameters, Plan]:
    """Returns the plans of layers, sorted by name."""
    plans = {}
    for params in sorted(records, key=place_of):
        try:
            plans[params] = plan_registration(params, records[params], batch)
        except NotRegistrableError as reason:
            _refuse(params, str(reason), reasons)
    return plans


def _seen(matches: Sequence[MatchRecord]) -> str:
    """Returns a text that says which layer was seen, and at which op."""
    others = f" and {len(matches) - 1} more" if len(matches) > 1 else ""
    return f"{matches[0].record_type.value}, by {matches[0].description}{others}"


def _refuse(params: Parameters, reason: str, reasons: dict[Any, str]) -> None:
    first, *others = as_tuple(params)
    reasons[first.ref()] = reason
    for other in others:
        reasons[other.ref()] = f"belongs to {name_of(first)}, which {reason}"


def _check_linked(
    tower: Tower,
    plans: Collection[Parameters],
    registered: Collection[Variable],
    linked_groups: LinkedGroups,
    reasons: Mapping[Any, str],
) -> None:
    done = {refs(key) for key in plans}
    taken = frozenset(v.ref() for v in registered)
    here = refs(tower.variables)
    for linked in linked_groups:
        members = refs(tuple(linked))
        is_lost = members not in done and members & here and not members & taken
        if is_lost and len(members) > 1:
            group_of = sorted(linked, key=name_of)
            why = "; ".join(f"{name_of(v)} {reasons[v.ref()]}" for v in group_of if v.ref() in here)
            raise ValueError(
                f"Cannot register layers automatically: linked group {parameter_names(group_of)} "
                f"was not matched as one layer: {why}. Link exactly the parameters of one layer, "
                "or register it by hand."
            )


def _explain_linked_alone(
    left: Collection[Variable], linked_groups: LinkedGroups, reasons: dict[Any, str]
) -> None:
    """Extends the reasons of parameters that are linked alone, and checks their approximation."""
    alone = {refs(tuple(g)): approx for g, approx in linked_groups.items() if len(g) == 1}
    for variable in left:
        key = refs(variable)
        if key not in alone:
            continue
        reason = f"is linked alone, and {reasons[variable.ref()]}"
        reasons[variable.ref()] = reason
        approx = alone[key]
        if approx is not None:
            where = f"register {name_of(variable)!r} automatically, as generic, because it {reason}"
            check_approximation("generic", approx, where)


def _generic(
    variables: Collection[Variable], batch: Batch, reasons: dict[Any, str]
) -> dict[Parameters, Plan]:
    if variables and batch.size is None:
        first = next(iter(variables))
        raise AmbiguousRegistrationError(
            f"Cannot register layers automatically: {name_of(first)} is to be registered as "
            f"generic, because it {reasons[first.ref()]}; and the number of examples is unknown, "
            "because the losses have different numbers of rows. Pass batch_size."
        )
    plan = Plan(register_generic, (), (), {"batch_size": batch.size})
    return dict.fromkeys(variables, plan)
