"""Checks and small functions of tensors, with the arguments of tf.contrib.framework."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

argsort = tf.argsort
assert_scalar = v1.assert_scalar
broadcast_to = tf.broadcast_to
is_tensor = tf.is_tensor
sort = tf.sort


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """Returns a scalar of whole numbers, made of a tensor or a value.

    Raises:
      ValueError: It is no scalar, or its type is not int32 or int64.
    """
    with v1.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if tensor.dtype not in (tf.int32, tf.int64):
            raise ValueError(
                f"Expected a scalar of int32 or int64, got {tensor.name} of {tensor.dtype.name}."
            )
        return assert_scalar(tensor)


def assert_same_float_dtype(tensors: Sequence[Any] | None = None, dtype: Any = None) -> Any:
    """Returns the type that tensors have in common.

    Args:
      tensors: Tensors, None among them left out.
      dtype: Type that they must have, or None.

    Returns:
      The type, float32 if nothing tells it.

    Raises:
      ValueError: They differ, or the type is no floating-point one.
    """
    found = None if dtype is None else tf.as_dtype(dtype)
    for tensor in tensors or ():
        if tensor is None:
            continue
        if found is None:
            found = tensor.dtype.base_dtype
        elif tensor.dtype.base_dtype != found:
            raise ValueError(
                f"Tensors must have one type: {tensor.name} has {tensor.dtype.name}, expected "
                f"{found.name}."
            )
    found = found or tf.float32
    if not found.is_floating:
        raise ValueError(f"Expected a floating-point type, got {found.name}.")
    return found


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """Returns a tensor whose shape is checked.

    Args:
      expected_shape: Shape: a sequence of numbers and None, or a Tensor, which is checked when the
        result is computed.
      tensor: The tensor.

    Raises:
      ValueError: The static shape is another one.
    """
    tensor = tf.convert_to_tensor(tensor)
    if not tf.is_tensor(expected_shape):
        tensor.shape.assert_is_compatible_with(expected_shape)
        wanted = tf.TensorShape(expected_shape)
        if not wanted.is_fully_defined() or tensor.shape.is_fully_defined():
            return tf.ensure_shape(tensor, wanted)
        expected_shape = wanted.as_list()
    check = v1.assert_equal(
        tf.shape(tensor, tf.int64), tf.cast(expected_shape, tf.int64), name="with_shape"
    )
    with tf.control_dependencies([check]):
        checked = tf.identity(tensor)
    static = tf.get_static_value(expected_shape) if tf.is_tensor(expected_shape) else expected_shape
    if static is not None:
        checked.set_shape(static)
    return checked


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """Returns a tensor that is checked to have the shape of another one, as `with_shape` does."""
    static = expected_tensor.shape
    return with_shape(static if static.is_fully_defined() else tf.shape(expected_tensor), tensor)


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Any:
    """Returns the sum of all elements of one or more tensors, a scalar.

    Raises:
      ValueError: There is no tensor.
    """
    if not tensors:
        raise ValueError("reduce_sum_n got no tensors: give one at least.")
    with v1.name_scope(name, "reduce_sum_n", tensors):
        return tf.add_n([tf.reduce_sum(each) for each in tensors])


def remove_squeezable_dimensions(
    predictions: Any, labels: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Drops a last axis of length 1 from the one of two tensors that has one axis more.

    Args:
      predictions: Tensor of known rank.
      labels: Tensor of known rank.
      name: Name of the operation.

    Returns:
      (predictions, labels), as they are if a rank is not known or the ranks do not differ by 1.
    """
    with v1.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        ranks = predictions.shape.rank, labels.shape.rank
        if None in ranks:
            return predictions, labels
        if ranks[0] == ranks[1] + 1 and predictions.shape[-1] in (1, None):
            predictions = tf.squeeze(predictions, [-1])
        elif ranks[1] == ranks[0] + 1 and labels.shape[-1] in (1, None):
            labels = tf.squeeze(labels, [-1])
        return predictions, labels


def smart_constant_value(pred: Any) -> Any:
    """Returns the value of a condition if it is known while the graph is built, else None.

    Raises:
      TypeError: It is something else.
    """
    if isinstance(pred, bool) or (isinstance(pred, int) and pred in (0, 1)):
        return bool(pred)
    if tf.is_tensor(pred):
        value = tf.get_static_value(pred)
        return None if value is None else bool(value)
    raise TypeError(f"A condition is a bool or a Tensor, got {pred!r}.")


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    name: str | None = None,
) -> Any:
    """Calls one function if the condition is known, else makes a tf.cond of both."""
    known = smart_constant_value(pred)
    if known is None:
        return v1.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def smart_case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    name: str = "smart_case",
) -> Any:
    """Calls the function of the first condition that holds, at once if all are known.

    Args:
      pred_fn_pairs: Pairs of a condition and a function, or a dict of them.
      default: Called if no condition holds; None calls the last function then.
      exclusive: True if two conditions must not hold together.
      name: Name of the tf.case.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    known = [smart_constant_value(pred) for pred, _ in pairs]
    if None in known:
        return v1.case(pairs, default, exclusive, name=name)
    for holds, (_, function) in zip(known, pairs, strict=True):
        if holds:
            return function()
    return (default or pairs[-1][1])()
