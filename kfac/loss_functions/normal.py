"""Independent normal distributions, of given or of predicted variance: squared errors.

By entry, with mean m and variance v: −log p(t) = (t − m)²/(2v) + ½ log(2πv). The Fisher matrix is
1/v with respect to m and 1/(2v²) with respect to v, without interaction.
"""

import math
import typing
from typing import Any, ClassVar

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.linalg import tensor_ops
from kfac.loss_functions.base import LossFunction


def standard_normal(shape: Tensor, dtype: DType, seed: Tensor) -> Tensor:
    """Draws from the standard normal distribution, in float32 or wider, and rounds to `dtype`."""
    wide = tensor_ops.statistics_dtype(dtype)
    return tf.cast(tf.random.stateless_normal(shape, seed, dtype=wide), dtype)


@typing.final
class NormalMeanNegativeLogProbLoss(LossFunction):
    """Squared error over twice a fixed variance, plus a constant; F = I/var, B = I/√var.

    The mean is [examples, ...], and targets are shaped as it. `var` > 0 is a Python number; 0.5
    makes the loss the plain squared error. Weights are [examples], or one per entry; None means 1.
    `seed` and `name` are those of `LossFunction`.
    """

    def __init__(
        self,
        mean: Tensor,
        var: float = 0.5,
        targets: Tensor | None = None,
        seed: int | None = None,
        *,
        name: str = "loss",
        weights: Tensor | None = None,
    ) -> None:
        """Keeps its arguments.

        Raises:
          TypeError: The variance is not a Python number.
          ValueError: The variance is not positive and finite.
        """
        if not isinstance(var, (int, float)):
            raise TypeError(
                f"Cannot register loss {name!r}: var={var!r} is a {type(var).__name__}. It must be "
                "a Python number. For a predicted variance register the mean and the variance."
            )
        if not (var > 0 and math.isfinite(var)):
            raise ValueError(f"Cannot register loss {name!r}: var={var!r}. It must be > 0.")
        super().__init__(mean, targets, seed, name, weights)
        self._mean = mean
        self._variance = float(var)

    def _sample(self, seed: Tensor) -> Tensor:
        """Draws Tensors shaped as the mean and of its dtype."""
        noise = standard_normal(tf.shape(self._mean), self.dtype, seed)
        return self._mean + self._variance**0.5 * noise

    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        error = self._targets_like_inputs(targets) - self._mean
        constant = 0.5 * math.log(2 * math.pi * self._variance)
        return 0.5 / self._variance * tf.square(error) + constant

    def _fisher_product(self, vector: Tensor) -> Tensor:
        return vector / self._variance

    def _factor_product(self, vector: Tensor) -> Tensor:
        return vector / self._variance**0.5

    def _factor_transpose_product(self, vector: Tensor) -> Tensor:
        return self._factor_product(vector)


@typing.final
class NormalMeanVarianceNegativeLogProbLoss(LossFunction):
    """Negative log-likelihood of a normal distribution whose mean and variance are predicted.

    Mean, variance > 0 and targets are [examples, n]; the other arguments are those of
    `NormalMeanNegativeLogProbLoss`. Vectors shaped as the inputs are pairs. Those on the inner side
    of the factor concatenate the two parts along the last axis. There is no GGN: the loss is not
    convex in the variance.
    """

    _has_natural_parameters: ClassVar[bool] = False

    def __init__(
        self,
        mean: Tensor,
        variance: Tensor,
        targets: Tensor | None = None,
        seed: int | None = None,
        *,
        name: str = "loss",
        weights: Tensor | None = None,
    ) -> None:
        super().__init__((mean, variance), targets, seed, name, weights)
        self._mean = mean
        self._variance = variance

    def _sample(self, seed: Tensor) -> Tensor:
        """Draws Tensors shaped as the mean and of its dtype."""
        noise = standard_normal(tf.shape(self._mean), self.dtype, seed)
        return self._mean + tf.sqrt(self._variance) * noise

    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        error = self._targets_like_inputs(targets) - self._mean
        log_normalizer = 0.5 * tf.math.log(2 * math.pi * self._variance)
        return 0.5 * tf.square(error) / self._variance + log_normalizer

    def _fisher_product(self, vector: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        of_mean, of_variance = vector
        return of_mean / self._variance, of_variance / (2 * tf.square(self._variance))

    def _factor_product(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        of_mean, of_variance = tf.split(vector, 2, axis=-1)
        return of_mean / tf.sqrt(self._variance), of_variance / (2**0.5 * self._variance)

    def _factor_transpose_product(self, vector: tuple[Tensor, Tensor]) -> Tensor:
        of_mean, of_variance = vector
        parts = [of_mean / tf.sqrt(self._variance), of_variance / (2**0.5 * self._variance)]
        return tf.concat(parts, axis=-1)

    @property
    def fisher_factor_inner_shape(self) -> Tensor:
        """Shape [examples, 2n] of vectors that B multiplies, int [2]."""
        shape = tf.shape(self._mean)
        return tf.concat([shape[:-1], 2 * shape[-1:]], axis=0)

    @property
    def fisher_factor_inner_static_shape(self) -> Any:
        """Static shape [examples, 2n] of vectors that B multiplies."""
        leading, size = self._mean.shape[:-1], tensor_ops.static_size(self._mean, -1)
        return leading.concatenate([None if size is None else 2 * size])
