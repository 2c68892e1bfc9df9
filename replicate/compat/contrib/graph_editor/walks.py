"""Operations and tensors of a graph: lists of them, filters, and walks along their edges."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1


def make_list_of_op(ops: Any) -> list[Operation]:
    """Returns operations as a list: of one, of a graph, of a view, or of a nest of these."""
    return _listed(ops, lambda graph: graph.get_operations(), v1.Operation)


def make_list_of_t(ts: Any) -> list[Tensor]:
    """Returns tensors as a list: one, those of a graph, or of a nest of these."""
    return _listed(ts, get_tensors, tf.Tensor)


def get_tensors(graph: Any) -> list[Tensor]:
    """Returns all tensors of a graph."""
    return [each for op in graph.get_operations() for each in op.outputs]


def _listed(given: Any, of_graph: Callable[[Any], list[Any]], kind: type) -> list[Any]:
    if isinstance(given, tf.Graph):
        return of_graph(given)
    if isinstance(given, kind):
        return [given]
    if hasattr(given, "ops") and kind is v1.Operation:
        return list(given.ops)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"Expected a {kind.__name__} or a list of them, got {given!r}.")
    return [each for part in given for each in _listed(part, of_graph, kind)]


def get_generating_ops(ts: Any) -> list[Operation]:
    """Returns the operations whose outputs are tensors, each once."""
    return list(dict.fromkeys(each.op for each in make_list_of_t(ts)))


def get_consuming_ops(ts: Any) -> list[Operation]:
    """Returns the operations whose inputs are tensors, each once."""
    return list(dict.fromkeys(op for each in make_list_of_t(ts) for op in each.consumers()))


def filter_ops(ops: Any, positive_filter: Callable[[Operation], bool] | bool) -> list[Operation]:
    """Returns the operations for which a function returns True, or all for True."""
    kept = make_list_of_op(ops)
    return kept if positive_filter is True else [e for e in kept if _passes(positive_filter, e)]


def filter_ops_from_regex(ops: Any, regex: Any) -> list[Operation]:
    """Returns the operations in whose name a pattern is found."""
    pattern = re.compile(regex)
    return filter_ops(ops, lambda op: pattern.search(op.name) is not None)


def filter_ts(ops: Any, positive_filter: Callable[[Tensor], bool] | bool) -> list[Tensor]:
    """Returns inputs, then outputs, of operations, each once, for which a function is True."""
    listed = make_list_of_op(ops)
    inputs = [each for op in listed for each in op.inputs]
    outputs = [each for op in listed for each in op.outputs]
    by_name = {each.name: each for each in [*inputs, *outputs]}
    kept = list(by_name.values())
    return kept if positive_filter is True else [e for e in kept if _passes(positive_filter, e)]


def filter_ts_from_regex(ops: Any, regex: Any) -> list[Tensor]:
    """Returns the inputs and outputs of operations in whose name a pattern is found."""
    pattern = re.compile(regex)
    return filter_ts(ops, lambda t: pattern.search(t.op.name) is not None)


def _passes(condition: Any, value: Any) -> bool:
    return bool(condition and condition(value))


def get_name_scope_ops(ops: Any, scope: str) -> list[Operation]:
    """Returns the operations below a name scope, and that of its own name."""
    name = scope.rstrip("/")
    return filter_ops(ops, lambda op: op.name == name or op.name.startswith(f"{name}/"))


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Any = (),
    control_outputs: Any = None,
) -> list[Operation]:
    """Returns all operations that seeds lead to.

    Args:
      seed_ops: Operations, or tensors whose consumers are the seeds.
      inclusive: True to return the seeds, too.
      within_ops: The walk stays among these.
      within_ops_fn: The walk stays among those for which it returns True.
      stop_at_ts: Tensors that the walk does not pass.
      control_outputs: True to follow control edges, too.
    """
    stops = {each.name for each in make_list_of_t(stop_at_ts)}

    seeds = _seeds(seed_ops, get_consuming_ops, stops)
    waiting = _control_outputs(seeds[0].graph) if seeds and control_outputs else {}

    def after(op: Operation) -> list[Operation]:
        passed = [each for each in op.outputs if each.name not in stops]
        return get_consuming_ops(passed) + waiting.get(op, [])

    return _walk(seeds, after, inclusive, _within(within_ops, within_ops_fn))


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Any = (),
    control_inputs: bool = False,
) -> list[Operation]:
    """Returns all operations that lead to seeds.

    Args:
      seed_ops: Operations, or tensors whose operations are the seeds.
      inclusive: True to return the seeds, too.
      within_ops: The walk stays among these.
      within_ops_fn: The walk stays among those for which it returns True.
      stop_at_ts: Tensors that the walk does not pass.
      control_inputs: True to follow control edges, too.
    """
    stops = {each.name for each in make_list_of_t(stop_at_ts)}

    def before(op: Operation) -> list[Operation]:
        passed = [each for each in op.inputs if each.name not in stops]
        return get_generating_ops(passed) + (list(op.control_inputs) if control_inputs else [])

    seeds = _seeds(seed_ops, get_generating_ops, stops)
    return _walk(seeds, before, inclusive, _within(within_ops, within_ops_fn))


def get_within_boundary_ops(
    ops: Any, seed_ops: Any, boundary_ops: Any = (), inclusive: bool = True
) -> list[Operation]:
    """Returns the operations that are connected with seeds, not beyond those of a boundary."""
    allowed = set(make_list_of_op(ops))
    edge = set(make_list_of_op(boundary_ops))

    def around(op: Operation) -> list[Operation]:
        if op in edge:
            return []
        return get_consuming_ops(op.outputs) + get_generating_ops(op.inputs)

    found = _walk(make_list_of_op(seed_ops), around, True, lambda op: op in allowed)
    return found if inclusive else [op for op in found if op not in edge]


def _seeds(
    given: Any, ops_of: Callable[[Any], list[Operation]], stops: set[str]
) -> list[Operation]:
    """Returns the first operations of a walk, from operations or from tensors."""
    is_list = isinstance(given, Iterable) and not isinstance(given, tf.Tensor)
    listed = list(given) if is_list else [given]
    if listed and isinstance(listed[0], tf.Tensor):
        return ops_of([each for each in make_list_of_t(listed) if each.name not in stops])
    return make_list_of_op(listed)


def _within(ops: Any, function: Callable[[Operation], bool] | None) -> Callable[[Operation], bool]:
    allowed = None if ops is None else set(make_list_of_op(ops))
    return lambda op: (allowed is None or op in allowed) and (function is None or function(op))


def _walk(
    seeds: list[Operation],
    following: Callable[[Operation], list[Operation]],
    inclusive: bool,
    is_within: Callable[[Operation], bool],
) -> list[Operation]:
    """Returns the operations of a walk, the closest first."""
    first = [op for op in seeds if is_within(op)]
    found = dict.fromkeys(first)
    wave = list(found)
    while wave:
        new = dict.fromkeys(op for each in wave for op in following(each) if is_within(op))
        wave = [op for op in new if op not in found]
        found.update(dict.fromkeys(wave))
    return list(found) if inclusive else [op for op in found if op not in first]


def _control_outputs(graph: Any) -> dict[Operation, list[Operation]]:
    """Returns the operations that wait for each operation by a control edge."""
    waiting: dict[Operation, list[Operation]] = {}
    for each in graph.get_operations():
        for before in each.control_inputs:
            waiting.setdefault(before, []).append(each)
    return waiting
