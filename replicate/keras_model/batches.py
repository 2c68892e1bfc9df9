"""Batches of an input_fn as a Keras model takes them: inputs, and values by output."""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Tensor

_WITH_WEIGHTS = frozenset({"features", "sample_weights"})


class ModelInput(NamedTuple):
    """Features of a batch.

    Attributes:
      inputs: In the structure that the model is called with.
      weights: Weights of the examples: a Tensor, a dict or a sequence by output; None if all are 1.
    """

    inputs: Nest
    weights: Nest | None


def model_input(
    features: Nest, names: Sequence[str], shapes: Sequence[tf.TensorShape] = ()
) -> ModelInput:
    """Returns the inputs of a model, and the weights of the examples.

    Args:
      features: A Tensor for a model with one input; a dict by the names of the inputs, or a tuple
        in their order. Or {"features": any of these, "sample_weights": weights}.
      names: Names of the model's inputs; empty for a model that takes the features as they are.
      shapes: Shapes of the model's inputs, if they are known. A feature of another shape is
        reshaped if axes next to each other are joined or split: [batch, 784] is [batch, 28, 28].

    Raises:
      ValueError: Inputs are missing, or their number differs.
    """
    weights = None
    if isinstance(features, Mapping) and frozenset(features) == _WITH_WEIGHTS:
        features, weights = features["features"], features["sample_weights"]
    return ModelInput(_unpacked(_inputs(features, names), shapes) if names else features, weights)


def by_output(value: Nest | None, names: Sequence[str], what: str) -> list[Any]:
    """Returns one value for each output, None where there is none.

    Args:
      value: One value for a model with one output; a dict by the names of the outputs, or a
        sequence in their order.
      names: Names of the outputs.
      what: Name of the values, for errors.

    Raises:
      ValueError: A dict names an unknown output, or the number of values differs.
    """
    if value is None:
        return [None] * len(names)
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(names))
        if unknown:
            raise ValueError(
                f"Keras model: {what} are given for {unknown}, but the outputs are {list(names)}. "
                "Name them as the outputs."
            )
        return [value.get(name) for name in names]
    if len(names) == 1 and not isinstance(value, (list, tuple)):
        return [value]
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(values) != len(names):
        raise ValueError(
            f"Keras model: {len(values)} {what} for {len(names)} outputs {list(names)}. Give one "
            "for each, in a list or in a dict by the names of the outputs."
        )
    return values


def repeated(value: Any, names: Sequence[str]) -> Any:
    """Returns a single value as one for each output; None, dicts and sequences unchanged."""
    if value is None or isinstance(value, (Mapping, list, tuple)):
        return value
    return [value] * len(names)


def weights_like(values: Tensor, weights: Any) -> Tensor:
    """Returns weights [batch, ...] in the dtype of values, with axes of 1 up to their rank."""
    weights = tf.cast(weights, values.dtype)
    missing = max(0, (values.shape.rank or 0) - (weights.shape.rank or 0))
    return tf.reshape(weights, tf.concat([tf.shape(weights), [1] * missing], 0))


def named_outputs(outputs: Nest, names: Sequence[str]) -> dict[str, Tensor]:
    """Returns the outputs of a model's call by their names.

    Without names, these are the outputs' keys, or "output_1" and so on.
    """
    flat = tf.nest.flatten(outputs)
    if len(names) != len(flat):
        has_keys = isinstance(outputs, Mapping) and len(outputs) == len(flat)
        names = sorted(outputs) if has_keys else [f"output_{n + 1}" for n in range(len(flat))]
    return dict(zip(names, flat, strict=True))


def _inputs(features: Nest, names: Sequence[str]) -> list[Any]:
    if isinstance(features, Mapping):
        return [_named(features, name, names) for name in names]
    values = list(features) if isinstance(features, (list, tuple)) else [features]
    if len(values) != len(names):
        raise ValueError(
            f"Keras model: {len(values)} features for {len(names)} inputs {list(names)}. Return a "
            "dict by the names of the inputs from input_fn, or a tuple in their order."
        )
    return values


def _named(features: Mapping[str, Any], name: str, names: Sequence[str]) -> Any:
    if name in features:
        return features[name]
    if len(names) == len(features) == 1:
        return next(iter(features.values()))
    raise ValueError(
        f"Keras model: there is no feature for the input {name!r}. The inputs are {list(names)}, "
        f"the features {sorted(features)}. Name the features as the inputs."
    )


def _unpacked(values: list[Any], shapes: Sequence[tf.TensorShape]) -> Any:
    if len(values) == len(shapes):
        values = [_shaped(value, shape) for value, shape in zip(values, shapes, strict=True)]
    return values[0] if len(values) == 1 else values


def _shaped(value: Any, shape: tf.TensorShape) -> Any:
    """Returns a feature in the shape of an input, if only axes are joined or split for it."""
    if not isinstance(value, tf.Tensor) or not value.shape.rank or not shape.rank:
        return value
    sizes, wanted = value.shape[1:], shape[1:]
    if value.shape.is_compatible_with(shape) or None in sizes.as_list() or None in wanted.as_list():
        return value
    ends, wanted_ends = _ends(sizes), _ends(wanted)
    if max(ends) != max(wanted_ends) or not (ends <= wanted_ends or wanted_ends <= ends):
        return value
    return tf.reshape(value, [-1, *wanted])


def _ends(sizes: tf.TensorShape) -> set[int]:
    """Returns the numbers of elements after which an axis ends, from the first axis on."""
    return {1, *itertools.accumulate(sizes.as_list(), operator.mul)}
