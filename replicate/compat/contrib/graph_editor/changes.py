"""Changes of edges in a graph.

The public API only adds to a graph (`tf.import_graph_def` with an `input_map` adds copies), while
programs hold the operations whose inputs are to change, and gradients of them: so this module, and
no other, calls three methods that TensorFlow keeps for itself: `_update_input`,
`_add_control_inputs` and `_remove_all_control_inputs` of `tf.Operation`.
"""

from collections.abc import Iterable
from typing import Any

from replicate._types import Operation, Tensor
from replicate.compat.contrib.graph_editor.walks import make_list_of_op, make_list_of_t


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Lets the operations that take tensors `ts1` take the tensors `ts0` in their place.

    Args:
      ts0: The tensors to take.
      ts1: As many tensors that were taken.
      can_modify: Operations that may change, all by default.
      cannot_modify: Operations that may not.

    Returns:
      Number of inputs that were changed.

    Raises:
      ValueError: There are not as many, or a type or a shape does not fit.
    """
    new, old = make_list_of_t(_plain(ts0)), make_list_of_t(_plain(ts1))
    if len(new) != len(old):
        raise ValueError(f"reroute_ts got {len(new)} tensors in place of {len(old)}.")
    allowed = None if can_modify is None else set(make_list_of_op(_plain(can_modify)))
    kept = set() if cannot_modify is None else set(make_list_of_op(_plain(cannot_modify)))
    count = 0
    for each, before in zip(new, old, strict=True):
        _check(each, before)
        for op in list(dict.fromkeys(before.consumers())):
            if op not in kept and (allowed is None or op in allowed):
                count += _reroute(op, each, before)
    return count


def _plain(values: Any) -> Any:
    """Returns a list of the values or keys of a dict."""
    is_view = isinstance(values, Iterable) and not hasattr(values, "graph")
    return list(values) if is_view else values


def _check(new: Tensor, old: Tensor) -> None:
    if new.dtype.base_dtype != old.dtype.base_dtype or not new.shape.is_compatible_with(old.shape):
        raise ValueError(f"reroute_ts got {new} in place of {old}: type and shape must fit.")


def _reroute(op: Operation, new: Tensor, old: Tensor) -> int:
    places = [place for place, each in enumerate(op.inputs) if each.name == old.name]
    for place in places:
        op._update_input(place, new)
    return len(places)


def add_control_inputs(op: Operation, cops: Any) -> None:
    """Lets an operation run after others.

    Raises:
      ValueError: It does so already.
    """
    new = make_list_of_op(_plain(cops))
    twice = sorted(each.name for each in new if each in op.control_inputs)
    if twice:
        raise ValueError(f"{op.name} runs after {twice} already.")
    op._add_control_inputs(new)


def remove_control_inputs(op: Operation, cops: Any) -> None:
    """Lets an operation no longer run after others.

    Raises:
      ValueError: It does not.
    """
    gone = set(make_list_of_op(_plain(cops)))
    absent = sorted(each.name for each in gone if each not in op.control_inputs)
    if absent:
        raise ValueError(f"{op.name} does not run after {absent}.")
    kept = [each for each in op.control_inputs if each not in gone]
    op._remove_all_control_inputs()
    op._add_control_inputs(kept)


def detach_control_inputs(sgv: Any) -> None:
    """Removes all control inputs of operations."""
    for op in make_list_of_op(sgv):
        op._remove_all_control_inputs()
