"""Losses of a compiled Keras model, computed in the graph of a model_fn.

`curvature_losses` describes them by their distributions, for an optimizer of second order.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.curvature import CurvatureLoss, LossKind
from replicate.keras_model.batches import by_output, repeated
from replicate.keras_model.recipe import ModelRecipe

v1 = tf.compat.v1


class LossTerm(NamedTuple):
    """The loss of one output.

    Attributes:
      name: Of the output.
      loss: Loss of Keras, or a function of labels and output.
      labels: [batch, ...].
      output: [batch, ...].
      weights: Weights of the examples, [batch], or None if all are 1.
      share: Factor of this loss in the total.
    """

    name: str
    loss: Any
    labels: Tensor
    output: Tensor
    weights: Any
    share: float

    def value(self) -> Tensor:
        """Computes the loss times its share, a scalar."""
        if hasattr(self.loss, "reduction"):
            value = self.loss(self.labels, self.output, sample_weight=self.weights)
        else:
            value = _weighted(self.loss(self.labels, self.output), self.weights)
        return tf.cast(tf.reduce_mean(value), tf.float32) * self.share


@dataclasses.dataclass(frozen=True)
class CompiledLosses:
    """The losses that a model was compiled with, as `compile` takes them.

    Attributes:
      recipe: Recipe of the model.
      losses: One loss for all outputs, or losses by output: names, functions and Keras losses.
      shares: Factor of each output's loss in the total, or None.
    """

    recipe: ModelRecipe
    losses: Any
    shares: Any

    @property
    def are_sums(self) -> bool:
        """True if all losses are sums over the batch, False if one is a mean."""
        flat = [each for each in tf.nest.flatten(self.losses) if each is not None]
        return bool(flat) and all(
            str(getattr(each, "reduction", "")).rpartition(".")[2].lower() == "sum" for each in flat
        )

    def terms(
        self, outputs: Mapping[str, Tensor], labels: Any, sample_weights: Any
    ) -> list[LossTerm]:
        """Returns the terms of the loss.

        Args:
          outputs: Outputs of the model by name, [batch, ...].
          labels: One for each output that has a loss.
          sample_weights: Weights of the examples, [batch], or None if all are 1.

        Raises:
          ValueError: An output with a loss has no labels.
        """
        names = list(outputs)
        by_name = zip(
            names,
            by_output(repeated(self.losses, names), names, "losses"),
            by_output(labels, names, "labels"),
            by_output(repeated(sample_weights, names), names, "sample weights"),
            by_output(repeated(self.shares, names), names, "loss_weights"),
            strict=True,
        )
        return [
            LossTerm(
                name,
                self._loss(loss),
                aligned_labels(name, target, outputs[name], "loss"),
                outputs[name],
                self._masked(weight, outputs[name]),
                1.0 if share is None else float(share),
            )
            for name, loss, target, weight, share in by_name
            if loss is not None
        ]

    def _loss(self, loss: Any) -> Any:
        with self.recipe.scope():
            return self.recipe.keras.losses.get(loss)

    def _masked(self, weight: Any, output: Tensor) -> Any:
        """Returns the weights of the time steps: 0 where a layer masks the output.

        Losses of Keras 3 look for the mask themselves.
        """
        mask = getattr(output, "_keras_mask", None)
        if mask is None or self.recipe.is_keras_3:
            return weight
        mask = tf.cast(mask, output.dtype)
        return mask if weight is None else mask * tf.reshape(tf.cast(weight, mask.dtype), [-1, 1])


def total_loss(terms: Sequence[LossTerm], model: Any) -> Tensor:
    """Returns the loss that a model is trained on, with its own losses, such as `add_loss` adds.

    Raises:
      ValueError: There is no loss at all.
    """
    values = [term.value() for term in terms]
    values += [tf.cast(each, tf.float32) for each in model.losses]
    if not values:
        raise ValueError(
            f"Keras model {model.name!r}: it was compiled without a loss, so it cannot be trained "
            "or evaluated. Pass loss=... to compile."
        )
    return tf.add_n(values, name="loss")


def aligned_labels(name: str, labels: Any, output: Tensor, user: str) -> Tensor:
    """Returns labels [batch] as [batch, 1] if the output is [batch, 1], other labels unchanged.

    Raises:
      ValueError: There are no labels.
    """
    if labels is None:
        raise ValueError(
            f"Keras model: there are no labels for the output {name!r}, which has a {user}. Return "
            "them from input_fn."
        )
    labels = tf.convert_to_tensor(labels)
    one_less = labels.shape.rank is not None and labels.shape.rank + 1 == output.shape.rank
    return tf.expand_dims(labels, -1) if one_less and output.shape[-1] == 1 else labels


def _weighted(values: Tensor, weights: Any) -> Tensor:
    if weights is None:
        return values
    weights = tf.cast(weights, values.dtype)
    missing = values.shape.rank - weights.shape.rank
    return values * tf.reshape(weights, tf.concat([tf.shape(weights), [1] * missing], 0))


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
