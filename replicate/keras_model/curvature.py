"""Losses of a compiled Keras model as an optimizer of second order needs them: by distribution."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.curvature import CurvatureLoss, LossKind
from replicate.keras_model.losses import LossTerm

_KINDS: Mapping[str, LossKind] = {
    "SparseCategoricalCrossentropy": "categorical",
    "CategoricalCrossentropy": "categorical",
    "BinaryCrossentropy": "multi_bernoulli",
    "MeanSquaredError": "squared_error",
}
_ACTIVATIONS: Mapping[LossKind, str] = {"categorical": "Softmax", "multi_bernoulli": "Sigmoid"}
"""Kind of loss → type of the operation that makes its probabilities."""


def curvature_losses(terms: Sequence[LossTerm]) -> tuple[CurvatureLoss, ...] | None:
    """Describes losses for an optimizer of second order.

    Losses of probabilities are described by their logits, the input of the softmax or sigmoid.

    Args:
      terms: Terms of the total loss. Their outputs are [batch, classes] or [batch, numbers].

    Returns:
      One record for each term. None if there are none, or one is of another kind: known are
      (sparse) categorical cross entropy, binary cross entropy and mean squared error.
    """
    found = [_curvature_loss(term) for term in terms]
    known = tuple(each for each in found if each is not None)
    return known if known and len(known) == len(found) else None


def _curvature_loss(term: LossTerm) -> CurvatureLoss | None:
    kind = _KINDS.get(type(term.loss).__name__)
    if kind is None or term.output.shape.rank != 2 or getattr(term.loss, "label_smoothing", 0):
        return None
    logits = _logits(kind, term)
    if logits is None:
        return None
    # Keras averages over the last axis where the distribution sums.
    numbers = 1 if kind == "categorical" else int(logits.shape[-1])
    weights = tf.constant(1.0) if term.weights is None else _column(term.weights)
    return CurvatureLoss(kind, logits, weights, term.share / numbers, term.name)


def _logits(kind: LossKind, term: LossTerm) -> Tensor | None:
    if kind == "squared_error" or term.loss.get_config().get("from_logits"):
        return term.output
    output = term.output.op
    while output.type == "Identity":
        output = output.inputs[0].op
    return output.inputs[0] if output.type == _ACTIVATIONS[kind] else None


def _column(weights: Any) -> Tensor:
    return tf.reshape(tf.cast(weights, tf.float32), [-1, 1])
