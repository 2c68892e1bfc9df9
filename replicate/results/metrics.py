"""Metrics over the whole batch: the towers' updates one after the other, on one state.

Each tower makes metrics with a state of their own: local variables, or what a Python function
keeps. In the merged metrics only the first tower's state counts. The first tower updates it, then
the second, and so on, as one tower would that gets the parts of the batch one after the other. So
metrics are exact whatever they keep: sums, means, maxima, covariances, lists.

The operations of a later tower's updates that need the state are therefore made again, for the
state of the first. All others are used as they are, and run beside those of other towers.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from model_deploy.disagreement import different_metrics
from replicate._types import Operation, Tensor
from replicate.graph_ops.again import make_again
from replicate.graph_ops.state import PythonCalls
from replicate.results.metric_state import MetricOps, MetricUpdates

v1 = tf.compat.v1

_LOOPS = frozenset(f"{ref}{kind}" for ref in ("", "Ref") for kind in ("Enter", "Exit"))
"""Types of the operations at the borders of a loop of control flow version 1."""


def merge_metrics(
    towers: Sequence[MetricOps | None], models: Sequence[Sequence[Tensor]]
) -> dict[str, tuple[Any, Any]]:
    """Merges the `eval_metric_ops` of all towers.

    Args:
      towers: Metrics of each tower.
      models: Loss and predictions of each tower.

    Returns:
      For each metric, the first tower's value and one update operation, the same for all metrics.

    Raises:
      ValueError: Towers made different metrics, or a metric keeps its state in a loop of control
        flow version 1.
    """
    metrics = [tower or {} for tower in towers]
    _check_alike("metrics", [sorted(map(repr, tower)) for tower in metrics])
    if not metrics[0]:
        return {}
    graph = v1.get_default_graph()
    calls_of_python = PythonCalls(graph)
    position = {operation: number for number, operation in enumerate(graph.get_operations())}
    updates = [
        MetricUpdates(*each, calls_of_python, position)
        for each in zip(metrics, models, strict=True)
    ]
    states = _own_resources(updates)
    _check_alike("variables and tables", [list(map(_described, state)) for state in states])
    calls = [update.python_calls() for update in updates]
    _check_alike("calls of Python", [list(map(_described_with_inputs, call)) for call in calls])
    with v1.name_scope("merge_metrics"):
        updated = v1.group(*updates[0].ends)
        for update, state, called in zip(updates[1:], states[1:], calls[1:], strict=True):
            again = update.depending_on([*state, *update.changed_variables(), *called])
            _check_no_loop(again, update)
            made = make_again(
                again,
                dict(zip(state, states[0], strict=True)),
                dict(zip(called, calls[0], strict=True)),
                after=updated,
            )
            updated = v1.group(*(made.get(end, end) for end in update.ends), updated)
    return {name: (value, updated) for name, (value, _) in metrics[0].items()}


def _own_resources(updates: Sequence[MetricUpdates]) -> list[list[Operation]]:
    """Returns the resources that each tower has for itself, in the order in which it made them."""
    used = [update.resources() for update in updates]
    shared = set(used[0]).intersection(*used[1:])
    return [[each for each in tower if each not in shared] for tower in used]


def _described(operation: Operation) -> str:
    """Describes what towers have in common in a variable or table."""
    attributes = operation.node_def.attr
    shape = tf.TensorShape(attributes["shape"].shape) if "shape" in attributes else ""
    dtype = tf.as_dtype(attributes["dtype"].type).name if "dtype" in attributes else ""
    return " ".join(filter(None, (operation.type, dtype, str(shape))))


def _described_with_inputs(operation: Operation) -> str:
    """Describes a call of Python. A function may rely on the shapes of its arguments."""
    is_direct = "token" in operation.node_def.attr
    inputs = (
        t.dtype.base_dtype.name + ("" if is_direct else f" {t.shape}") for t in operation.inputs
    )
    return f"{operation.type}({', '.join(inputs)})"


def _check_alike(what: str, found: Sequence[Sequence[str]]) -> None:
    if any(list(each) != list(found[0]) for each in found):
        raise different_metrics(what, found)


def _check_no_loop(operations: Sequence[Operation], updates: MetricUpdates) -> None:
    """Refuses state in loops of control flow version 1, which cannot be made again."""
    for operation in operations:
        if operation.type in _LOOPS:
            names = ", ".join(map(repr, updates.names_of(operation)))
            raise ValueError(
                f"Cannot evaluate metric {names} on several towers: its update changes what it "
                f"keeps in a loop (the operation {operation.name!r}, of control flow version 1), "
                "and towers must update it one after the other. Compute the batch's values in the "
                "loop and change variables after it, call tf.compat.v1.enable_control_flow_v2(), "
                "or evaluate on one device."
            )
