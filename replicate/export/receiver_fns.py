"""Functions that make input receiver functions, for the usual ways to feed a model.

A receiver function takes no arguments, adds placeholders to the default graph, and returns a
receiver. The functions here use their arguments (tensors, specs, an input_fn) only for shapes and
types.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.export.receivers import (
    SINGLE_INPUT,
    SINGLE_LABEL,
    ServingInputReceiver,
    SupervisedInputReceiver,
)

v1 = tf.compat.v1

_NOT_DENSE = (tf.SparseTensor, tf.SparseTensorSpec, tf.RaggedTensor, tf.RaggedTensorSpec)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Makes a receiver function for serialised tf.train.Examples, as the input "examples".

    Args:
      feature_spec: Dict of name to `tf.io.FixedLenFeature`, `VarLenFeature` and so on.
      default_batch_size: Number of examples in a request; None means any number.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = v1.placeholder(
            tf.string, shape=[default_batch_size], name="input_example_tensor"
        )
        features = v1.io.parse_example(examples, dict(feature_spec))
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def build_raw_serving_input_receiver_fn(
    features: Nest, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Makes a receiver function for the features themselves.

    Args:
      features: Dict of name to something with a shape [batch, ...] and a dtype: a Tensor, a
        `tf.TensorSpec` or an array. A single value gets the names that ServingInputReceiver gives.
      default_batch_size: Number of rows in a request; None means any number.

    Raises:
      ValueError: A feature has no batch dimension.
      TypeError: A feature has no shape or dtype.
    """
    shapes = _specs(features, SINGLE_INPUT, default_batch_size)

    def serving_input_receiver_fn() -> ServingInputReceiver:
        placeholders = _placeholders(shapes)
        if isinstance(features, Mapping):
            return ServingInputReceiver(placeholders, placeholders)
        return ServingInputReceiver(placeholders[SINGLE_INPUT], placeholders)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: Nest, labels: Nest, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """Makes a receiver function for features and labels.

    Args:
      features: As for `build_raw_serving_input_receiver_fn`; a single value is the input "input".
      labels: Like `features`; a single value is the input "label".
      default_batch_size: Number of rows in a request; None means any number.

    Raises:
      ValueError: Features and labels share a name, or one has no batch dimension.
      TypeError: A feature or label has no shape or dtype.
    """
    feature_shapes = _specs(features, SINGLE_INPUT, default_batch_size)
    label_shapes = _specs(labels, SINGLE_LABEL, default_batch_size)
    shared = sorted(set(feature_shapes) & set(label_shapes))
    if shared:
        raise ValueError(
            f"Cannot build an input receiver: features and labels both have {shared}, and a "
            "request could not tell them apart. Rename them."
        )

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        feature_inputs, label_inputs = _placeholders(feature_shapes), _placeholders(label_shapes)
        return SupervisedInputReceiver(
            feature_inputs if isinstance(features, Mapping) else feature_inputs[SINGLE_INPUT],
            label_inputs if isinstance(labels, Mapping) else label_inputs[SINGLE_LABEL],
            {**feature_inputs, **label_inputs},
        )

    return supervised_input_receiver_fn


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> Callable[[], SupervisedInputReceiver]:
    """Makes a receiver function for features and labels like those of an input_fn.

    Args:
      input_fn: Returns a dataset or Tensors of (features, labels). It is called once, in a separate
        graph.
      **input_fn_args: Arguments of `input_fn`.

    Raises:
      ValueError: `input_fn` returns no labels, features and labels share a name, or one of them has
        no batch dimension.
      TypeError: A feature or label is not a dense Tensor.
    """
    with tf.Graph().as_default():
        returned = input_fn(**input_fn_args)
        if isinstance(returned, tf.data.Dataset):
            returned = returned.element_spec
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise ValueError(
                "Cannot build a supervised input receiver: input_fn must give (features, labels), "
                f"got {returned!r}. Use build_raw_serving_input_receiver_fn without labels."
            )
        return build_raw_supervised_input_receiver_fn(*returned)


def _specs(values: Nest, single: str, batch_size: int | None) -> dict[str, tf.TensorSpec]:
    """Returns shape, type and name of the placeholder for each value."""
    named = values if isinstance(values, Mapping) else {single: values}
    return {name: _spec(name, value, batch_size) for name, value in named.items()}


def _spec(name: str, value: Any, batch_size: int | None) -> tf.TensorSpec:
    if isinstance(value, _NOT_DENSE) or not (hasattr(value, "shape") and hasattr(value, "dtype")):
        raise TypeError(
            f"Cannot build an input receiver: {name!r} must be dense, with a shape and a dtype as "
            f"a Tensor, a tf.TensorSpec or an array has them, got {value!r}. Write a function that "
            "returns a ServingInputReceiver for other inputs."
        )
    shape, dtype = tf.TensorShape(value.shape), tf.as_dtype(value.dtype)
    if shape.rank == 0:
        raise ValueError(
            f"Cannot build an input receiver: {name!r} is a scalar, and the first dimension of an "
            "input is the batch. Give it the shape [None]."
        )
    if shape.rank is not None:
        shape = tf.TensorShape([batch_size]).concatenate(shape[1:])
    own_name = value.op.name if isinstance(value, tf.Tensor) else getattr(value, "name", None)
    return tf.TensorSpec(shape, dtype, own_name)


def _placeholders(specs: Mapping[str, tf.TensorSpec]) -> dict[str, Tensor]:
    return {name: v1.placeholder(spec.dtype, spec.shape, spec.name) for name, spec in specs.items()}
