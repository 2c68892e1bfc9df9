"""Losses of a compiled Keras model, computed in the graph of a model_fn as `fit` computes them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor
from replicate.keras_model.batches import by_output, repeated, weights_like
from replicate.keras_model.recipe import ModelRecipe
from replicate.tower.build import current_build

v1 = tf.compat.v1


class LossTerm(NamedTuple):
    """The loss of one output.

    Attributes:
      name: Of the output.
      loss: Loss of Keras; a function of labels and output is that of `loss_of_function`.
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

    @property
    def is_sum(self) -> bool:
        """True if the loss is a sum over the batch."""
        return reduction_of(self.loss) == "sum"

    def value(self) -> Tensor:
        """Computes the loss times its share, a scalar."""
        return self._value(self.loss)

    def sum(self) -> Tensor:
        """Computes the sum that the mean divides, times the share of the loss; a scalar."""
        # Not by copy.copy: Keras 3 would read the copy's class from the loss's configuration.
        summed = object.__new__(type(self.loss))
        vars(summed).update(vars(self.loss), reduction="sum")
        return self._value(summed)

    def divisor(self) -> Tensor | None:
        """Returns the number that the mean divides by, a scalar.

        None if the loss is no mean, or one over all rows and steps.
        """
        reduction, mask = reduction_of(self.loss), self.mask()
        is_weighted = reduction == "mean_with_sample_weight" and self.weights is not None
        if reduction in ("sum", "none") or (mask is None and not is_weighted):
            return None
        counted = tf.constant(1.0) if mask is None else tf.cast(mask, tf.float32)
        if is_weighted:
            counted *= weights_like(counted, self.weights)
        return tf.reduce_sum(counted)

    def mask(self) -> Tensor | None:
        """Returns the mask of the output, [batch, ...]: False where the loss does not count."""
        mask = getattr(self.output, "_keras_mask", None)
        ignored = option(self.loss, "ignore_class")
        if ignored is None:
            return mask
        valid = tf.not_equal(self.labels, tf.cast(ignored, self.labels.dtype))
        valid = tf.reshape(valid, tf.shape(self.output)[:-1])
        return valid if mask is None else tf.logical_and(tf.cast(mask, tf.bool), valid)

    def _value(self, loss: Any) -> Tensor:
        value = loss(self.labels, self.output, sample_weight=self.weights)
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
        return bool(flat) and all(reduction_of(each) == "sum" for each in flat)

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
                weight,
                1.0 if share is None else float(share),
            )
            for name, loss, target, weight, share in by_name
            if loss is not None
        ]

    def _loss(self, loss: Any) -> Any:
        """Returns a loss of Keras, as `compile` makes it of a name or function."""
        with self.recipe.scope():
            found = self.recipe.keras.losses.get(loss)
        return found if hasattr(found, "reduction") else loss_of_function(self.recipe.keras, found)


def loss_of_function(keras: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """Returns a loss of Keras with the values of a function, which is its attribute `function`.

    Weights and masks count as in `fit`. The function gets labels and output as they are.
    """

    class FunctionLoss(keras.losses.Loss):
        def __call__(self, labels: Tensor, output: Tensor, sample_weight: Any = None) -> Tensor:
            return super().__call__(function(labels, output), output, sample_weight=sample_weight)

        def call(self, values: Tensor, output: Tensor) -> Tensor:
            return values

    loss = FunctionLoss()
    loss.function = function
    return loss


def reduction_of(loss: Any) -> str:
    """Returns the reduction of a loss of any Keras, in small letters; "" of names and functions."""
    return str(getattr(loss, "reduction", "")).rpartition(".")[2].lower()


def option(loss: Any, name: str) -> Any:
    """Returns an option that a loss or its function was made with, None without it."""
    function = getattr(loss, "function", None)
    if function is not None:
        return getattr(function, "keywords", {}).get(name)
    return loss.get_config().get(name) if hasattr(loss, "get_config") else None


def total_loss(values: Sequence[Tensor], model: Any) -> Tensor:
    """Returns the loss that a model is trained on, with its own losses, such as `add_loss` adds.

    Args:
      values: Those of its terms, scalars.
      model: The Keras model.

    Raises:
      ValueError: There is no loss at all.
    """
    values = [*values, *(tf.cast(each, tf.float32) for each in _own_losses(model))]
    if not values:
        raise ValueError(
            f"Keras model {model.name!r}: it was compiled without a loss, so it cannot be trained "
            "or evaluated. Pass loss=... to compile."
        )
    return tf.add_n(values, name="loss")


def _own_losses(model: Any) -> Sequence[Tensor]:
    """Returns the losses that layers add: in the first tower only, if towers' losses are summed."""
    build = current_build()
    return model.losses if build is None or build.regularizes else ()


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
