"""Independent Bernoulli distributions given by logits: sigmoid cross-entropy.

With p = sigmoid(logits), by entry: F = p(1 − p) and B = √F.
"""

import typing

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg import tensor_ops
from kfac.loss_functions.base import LogitsLoss


@typing.final
class MultiBernoulliNegativeLogProbLoss(LogitsLoss):
    """Sigmoid cross-entropy of independent entries; targets in [0, 1] are shaped as the logits."""

    def _sample(self, seed: Tensor) -> Tensor:
        """Draws zeros and ones, shaped as the logits and of their dtype."""
        dtype = tensor_ops.statistics_dtype(self.dtype)
        uniform = tf.random.stateless_uniform(tf.shape(self.inputs), seed, dtype=dtype)
        return tf.cast(uniform < tf.sigmoid(tf.cast(self.inputs, dtype)), self.dtype)

    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        labels = self._targets_like_inputs(targets)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=self.inputs)

    def _variance(self) -> Tensor:
        """Returns p(1 − p), as a product that keeps its digits for p near 0 and near 1."""
        return tf.sigmoid(self.inputs) * tf.sigmoid(-self.inputs)

    def _fisher_product(self, vector: Tensor) -> Tensor:
        return self._variance() * vector

    def _factor_product(self, vector: Tensor) -> Tensor:
        return tf.sqrt(self._variance()) * vector

    def _factor_transpose_product(self, vector: Tensor) -> Tensor:
        return self._factor_product(vector)
