"""Losses of a compiled Keras model by their distributions, for an optimizer of second order."""

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.curvature import CurvatureLoss, LossKind
from replicate.keras_model.losses import LossTerm

ACCEPTED = (
    "(sparse) categorical and binary cross entropy and mean squared error of Keras, by name, "
    "function or class, for an output [batch, numbers], without label_smoothing and ignore_class; "
    "of probabilities, if a softmax or a sigmoid makes them"
)
"""Losses that are known, for errors."""

_KINDS: Mapping[str, LossKind] = types.MappingProxyType(
    {
        "SparseCategoricalCrossentropy": "categorical",
        "CategoricalCrossentropy": "categorical",
        "BinaryCrossentropy": "multi_bernoulli",
        "MeanSquaredError": "squared_error",
        "sparse_categorical_crossentropy": "categorical",
        "categorical_crossentropy": "categorical",
        "binary_crossentropy": "multi_bernoulli",
        "mean_squared_error": "squared_error",
    }
)
"""Class or function of Keras → kind of its loss."""

_ACTIVATIONS: Mapping[LossKind, str] = types.MappingProxyType(
    {"categorical": "Softmax", "multi_bernoulli": "Sigmoid"}
)
"""Kind of loss → type of the operation that makes its probabilities."""


class _Known(NamedTuple):
    """Kind of a loss, and the options that it was made with."""

    kind: LossKind
    options: Mapping[str, Any]

    @property
    def is_plain(self) -> bool:
        """False if an option makes another loss of it."""
        ignored = self.options.get("ignore_class")
        return ignored is None and not self.options.get("label_smoothing")


def curvature_losses(terms: Sequence[LossTerm]) -> tuple[CurvatureLoss, ...] | None:
    """Describes losses for an optimizer of second order.

    Losses of probabilities are described by their logits, the input of the softmax or sigmoid.

    Args:
      terms: Terms of the total loss. Their outputs are [batch, classes] or [batch, numbers].

    Returns:
      One record for each term. None if there are none, or one is not in `ACCEPTED`.
    """
    found = [_curvature_loss(term) for term in terms]
    known = tuple(each for each in found if each is not None)
    return known if known and len(known) == len(found) else None


def _curvature_loss(term: LossTerm) -> CurvatureLoss | None:
    known = _known(term.loss)
    if known is None or not known.is_plain or term.output.shape.rank != 2:
        return None
    logits = _logits(known, term.output)
    if logits is None:
        return None
    # Keras averages over the last axis where the distribution sums.
    numbers = 1 if known.kind == "categorical" else int(logits.shape[-1])
    return CurvatureLoss(known.kind, logits, _weights(term), term.share / numbers, term.name)


def _weights(term: LossTerm) -> Tensor:
    """Returns the weights of the examples in a mean over all rows, [batch, 1] or a scalar 1."""
    weights = tf.constant(1.0) if term.weights is None else _column(term.weights)
    mask = term.mask()
    if mask is None:
        return weights
    counted = _column(mask)
    return weights * tf.math.divide_no_nan(counted, tf.reduce_mean(counted))


def _known(loss: Any) -> _Known | None:
    """Returns a loss of Keras as one of those that are known, None if it is none of them."""
    function = getattr(loss, "function", None)
    if isinstance(function, functools.partial) and not function.args:
        kind, options = _kind(function.func), function.keywords
    else:
        kind = _kind(function or type(loss))
        options = loss.get_config() if kind and function is None else {}
    return _Known(kind, options) if kind else None


def _kind(source: Any) -> LossKind | None:
    """Returns the kind of a class or function of Keras."""
    package = str(getattr(source, "__module__", "")).partition(".")[0]
    is_of_keras = package in ("keras", "tf_keras")
    return _KINDS.get(getattr(source, "__name__", "")) if is_of_keras else None


def _logits(known: _Known, output: Tensor) -> Tensor | None:
    if known.kind == "squared_error" or known.options.get("from_logits"):
        return output
    source = output.op
    while source.type == "Identity":
        source = source.inputs[0].op
    return source.inputs[0] if source.type == _ACTIVATIONS[known.kind] else None


def _column(weights: Any) -> Tensor:
    return tf.reshape(tf.cast(weights, tf.float32), [-1, 1])
