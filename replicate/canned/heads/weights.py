"""Weights of the examples, from a feature."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.checks import checked, same_shape, with_last_axis


def check_weight_column(weight_column: Any, where: str) -> None:
    """Checks that a weight column is the key of a feature, a `numeric_column`, or None.

    Raises:
      TypeError: It is something else.
    """
    is_numeric = hasattr(weight_column, "key") and hasattr(weight_column, "normalizer_fn")
    if not (weight_column is None or isinstance(weight_column, str) or is_numeric):
        raise TypeError(
            f"Cannot make {where}: weight_column must be the key of a feature or a "
            f"tf.feature_column.numeric_column, got {weight_column!r}. Pass the feature's key."
        )


def example_weights(
    features: Any, weight_column: Any, logits: Tensor, per_logit: bool, where: str
) -> Tensor:
    """Returns the weights of the examples, from a dict of features.

    `per_logit` allows weights of the shape of the logits, float32 [D0, ..., DN, logits_dimension].

    Returns:
      float32 [D0, ..., DN, 1], or the shape of the logits; the scalar 1 without a column.

    Raises:
      KeyError: The feature is missing.
      ValueError: Features are not a dict, the weights are neither integers nor floats, or of a
        shape that is known and wrong. In a graph an assertion checks a shape that is not known.
    """
    if weight_column is None:
        return tf.constant(1.0)
    numbers = _numbers(_feature(features, weight_column, where), weight_column, where)
    weights = with_last_axis(numbers, logits)
    shapes = "[D0, ..., DN] or [D0, ..., DN, 1]" + (", or that of the logits" if per_logit else "")
    error = (
        f"The weights of {where}, feature {_key(weight_column)!r}, do not match the logits. Their "
        f"shape must be {shapes}, for logits of shape [D0, ..., DN, logits_dimension]. Give each "
        "example one weight."
    )
    wanted = [logits.shape[:-1].concatenate(1), *([logits.shape] if per_logit else [])]
    if not any(weights.shape.is_compatible_with(each) for each in wanted):
        raise ValueError(
            f"{error} Received weights of shape {weights.shape}, logits of shape {logits.shape}."
        )
    shape, logits_shape = tf.shape(weights), tf.shape(logits)
    accepted = same_shape(shape, tf.concat([logits_shape[:-1], [1]], axis=0))
    if per_logit:
        accepted = tf.logical_or(accepted, same_shape(shape, logits_shape))
    return checked(weights, accepted, error, {"weights_shape": shape, "logits_shape": logits_shape})


def _key(weight_column: Any) -> str:
    return weight_column if isinstance(weight_column, str) else weight_column.key


def _feature(features: Any, weight_column: Any, where: str) -> Tensor:
    """Returns the feature as a Tensor; [batch] becomes [batch, 1], as for a feature column."""
    key = _key(weight_column)
    if not isinstance(features, Mapping):
        raise ValueError(
            f"Cannot weight the examples of {where}: features must be a dict with the weights as "
            f"{key!r}, got {features!r}. Pass the features of model_fn to the head."
        )
    if key not in features:
        raise KeyError(
            f"Cannot weight the examples of {where}: the features lack its weight_column {key!r}, "
            f"they are {sorted(map(str, features))}. Return it from input_fn, too."
        )
    found = features[key]
    if isinstance(found, tf.SparseTensor | tf.RaggedTensor):
        raise ValueError(
            f"Cannot weight the examples of {where}: feature {key!r} is a {type(found).__name__}. "
            "Make it a dense Tensor, with one weight for each example."
        )
    found = tf.convert_to_tensor(found)
    return tf.expand_dims(found, -1) if found.shape.rank == 1 else found


def _numbers(weights: Tensor, weight_column: Any, where: str) -> Tensor:
    normalizer = getattr(weight_column, "normalizer_fn", None)
    if normalizer is not None:
        weights = tf.convert_to_tensor(normalizer(weights))
    if not (weights.dtype.is_floating or weights.dtype.is_integer):
        raise ValueError(
            f"Cannot weight the examples of {where}: feature {_key(weight_column)!r} is of type "
            f"{weights.dtype.name}. Weights must be integers or floats: convert them in input_fn."
        )
    return tf.cast(weights, tf.float32)
