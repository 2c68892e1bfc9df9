"""Metrics over the whole batch, from metric variables that each tower keeps for itself.

`tf.compat.v1.metrics` keep totals and counts in local variables, so each tower has its own. After
all towers have updated theirs, the first tower's variables take in the others', which are set back
to zero; its value tensors then speak of the whole batch, exactly. This holds for metrics whose
variables add up, as those of `tf.compat.v1.metrics` and of Keras do.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from replicate._types import Operation, Variable

v1 = tf.compat.v1

MetricOps: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Name → (value tensor, update operation)."""


def merge_metrics(
    towers: Sequence[MetricOps | None], variables: Sequence[Sequence[Variable]]
) -> dict[str, tuple[Any, Any]]:
    """Merges the `eval_metric_ops` of all towers.

    Args:
      towers: What each tower returned.
      variables: The metric variables that each tower made, in any order. The n-th one made by
        each tower are added up.

    Returns:
      For each metric the first tower's value and one update operation that all of them share.
      Running it again without new updates changes nothing.

    Raises:
      ValueError: Towers made different numbers of metric variables.
    """
    if not towers[0]:
        return {}
    expected = len(variables[0])
    for index, made in enumerate(variables):
        if len(made) != expected:
            raise ValueError(
                f"Different eval_metric_ops across towers. Expected {expected} local variables, "
                f"but got {len(made)} instead in tower {index}. Each call of model_fn must make "
                f"the same metrics."
            )
    updates = [v1.group(update) for tower in towers for _, update in (tower or {}).values()]
    with v1.name_scope("merge_metrics"):
        merged = _sum_into_first(_in_creation_order(variables), after=updates)
    return {name: (value, merged) for name, (value, _) in towers[0].items()}


def _in_creation_order(towers: Sequence[Sequence[Variable]]) -> list[list[Variable]]:
    """Sorts each tower's variables: tf.estimator lists those of Keras metrics in random order."""
    operations = v1.get_default_graph().get_operations()
    position = {operation.name: number for number, operation in enumerate(operations)}
    return [sorted(made, key=lambda each: position[each.op.name]) for made in towers]


def _sum_into_first(
    variables: Sequence[Sequence[Variable]], after: Sequence[Operation]
) -> Operation:
    """Adds the other towers' variables to the first tower's and sets them to zero."""
    first, others = variables[0], variables[1:]
    with v1.control_dependencies(after):
        totals = [
            v1.add_n([variable.read_value() for variable in copies])
            for copies in zip(first, *others, strict=True)
        ]
    with v1.control_dependencies(totals):
        sums = [v1.assign(into, total) for into, total in zip(first, totals, strict=True)]
        zeros = [
            v1.assign(variable, tf.zeros_like(variable.read_value()))
            for made in others
            for variable in made
        ]
        return v1.group(*sums, *zeros)
