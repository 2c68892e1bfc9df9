"""Chooses among the matches, so that each parameter belongs to one layer.

Three filters take records by parameters and return the records to keep. The user's registrations
win; linked parameters stay together; and of two matches at one place, the one that explains more of
the graph is kept. Called by the scanner.
"""

from collections.abc import Collection, Iterable

from kfac._types import Variable
from kfac.graph_search.records import (
    AmbiguousRegistrationError,
    MatchRecord,
    Records,
    group,
    refs,
)
from kfac.registration.layer_table import parameter_names


def filter_user_registered_records(
    records: Records, user_registered_variables: Collection[Variable]
) -> Records:
    """Removes matches with a parameter that the user has registered.

    Args:
      records: Matches by parameters.
      user_registered_variables: Parameters that the user has registered.
    """
    taken = frozenset(variable.ref() for variable in user_registered_variables)
    return {key: value for key, value in records.items() if taken.isdisjoint(refs(key))}


def filter_grouped_variable_records(
    records: Records, linked_groups: Iterable[Collection[Variable]]
) -> Records:
    """Removes matches that cut through a linked group, or hold a group and further parameters.

    Args:
      records: Matches by parameters.
      linked_groups: Parameters that are one layer; see `define_linked_parameters`.
    """
    group_of = {v.ref(): refs(tuple(linked)) for linked in linked_groups for v in linked}
    return {
        key: value
        for key, value in records.items()
        if all(group_of.get(ref, refs(key)) == refs(key) for ref in refs(key))
    }


def filter_subgraph_records(records: Records) -> Records:
    """Removes matches that are a proper part of another match with a common parameter.

    Args:
      records: Matches by parameters.
    """
    everything = [record for of_key in records.values() for record in of_key]
    by_tensor: dict[object, list[MatchRecord]] = {}
    for record in everything:
        for tensor in record.tensor_set:
            by_tensor.setdefault(_key(tensor), []).append(record)
    left = []
    for record in everything:
        # A match that contains another one has all its tensors. So it is found by the rarest of
        # them.
        others = min((by_tensor[_key(t)] for t in record.tensor_set), key=len, default=[])
        if not any(_contains(other, record) for other in others):
            left.append(record)
    return group(left)


def _key(tensor: object) -> object:
    return tensor.ref() if hasattr(tensor, "ref") else tensor


def _contains(larger: MatchRecord, smaller: MatchRecord) -> bool:
    if refs(larger.params).isdisjoint(refs(smaller.params)):
        return False
    return {_key(t) for t in smaller.tensor_set} < {_key(t) for t in larger.tensor_set}


def check_disjoint(records: Records) -> None:
    """Checks that no parameter belongs to two layers.

    Raises:
      AmbiguousRegistrationError: One does; the message names it, and the layers.
    """
    owner: dict[object, str] = {}
    for key in records:
        for ref in refs(key):
            other = owner.setdefault(ref, parameter_names(key))
            if other != parameter_names(key):
                raise AmbiguousRegistrationError(
                    f"Cannot register layers automatically: the graph has {other} and "
                    f"{parameter_names(key)} as layers, which share a parameter. Say which "
                    "parameters belong together with define_linked_parameters, or register one of "
                    "these layers, or register_generic the parameter, before."
                )
