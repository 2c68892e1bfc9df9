"""Metrics over the whole batch, from the metric variables of each tower.

`tf.compat.v1.metrics` keep totals and counts in local variables, so each tower has its own. After
all towers have updated theirs, the other towers' variables are added to the first tower's and set
to zero. The first tower's values are then exact for the whole batch. This works for metrics whose
variables are sums, such as those of `tf.compat.v1.metrics` and of Keras.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from model_deploy.disagreement import different_metrics
from replicate._types import Operation, Variable

v1 = tf.compat.v1

_MERGES = ("replicate", "metric_merges")
"""Key of the operations that write sums over towers. Not a string: never exported."""

MetricOps: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Name → (value tensor, update operation)."""


def merge_metrics(
    towers: Sequence[MetricOps | None], variables: Sequence[Sequence[Variable]]
) -> dict[str, tuple[Any, Any]]:
    """Merges the `eval_metric_ops` of all towers.

    The variables may be in any order. The n-th variables that the towers created are added.

    Returns:
      For each metric, the first tower's value and one update operation, the same for all metrics.
      Running the update again without new data changes nothing.

    Raises:
      ValueError: Towers made different numbers of metric variables.
    """
    if not towers[0]:
        return {}
    counts = [len(made) for made in variables]
    if len(set(counts)) > 1:
        raise different_metrics(counts)
    updates = [v1.group(update) for tower in towers for _, update in (tower or {}).values()]
    with v1.name_scope("merge_metrics"):
        merged = _sum_into_first(_in_creation_order(variables), after=updates)
    return {name: (value, merged) for name, (value, _) in towers[0].items()}


def metric_merges() -> list[Operation]:
    """Returns the operations of the default graph that add up metric variables over towers."""
    return list(v1.get_collection_ref(_MERGES))


def _in_creation_order(towers: Sequence[Sequence[Variable]]) -> list[list[Variable]]:
    """Sorts each tower's variables by creation: tf.estimator lists those of Keras at random."""
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
        merges = [getattr(each, "op", each) for each in (*sums, *zeros)]
        v1.get_collection_ref(_MERGES).extend(merges)
        return v1.group(*merges)
