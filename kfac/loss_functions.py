"""Losses as negative log-probabilities of a distribution that the model predicts.

K-FAC needs more than a loss's value: it draws targets from the model's own distribution, because
the Fisher matrix is an expectation over those. Losses are sums over examples. Called by the layer
collection.

References:
  Martens (2014), "New insights and perspectives on the natural gradient method",
  arXiv:1412.1193, §5.
"""

import abc
import typing

import tensorflow as tf

from kfac._types import DType, Tensor


class LossFunction(abc.ABC):
    """Negative log-probability of targets under a predicted distribution.

    Attributes:
      name: Name of the loss, the same in all towers.
    """

    def __init__(self, name: str, targets: Tensor | None) -> None:
        """Keeps its arguments.

        Args:
          name: Name of the loss.
          targets: What was observed, or None if only samples will be needed.
        """
        self.name = name
        self._targets = targets

    @property
    def targets(self) -> Tensor | None:
        """What was observed, or None."""
        return self._targets

    @property
    @abc.abstractmethod
    def inputs(self) -> Tensor:
        """The parameters of the distribution, the model's outputs."""

    @property
    def dtype(self) -> DType:
        """Dtype of the inputs."""
        return self.inputs.dtype

    @abc.abstractmethod
    def sample(self, seed: Tensor) -> Tensor:
        """Draws targets from the predicted distribution.

        Args:
          seed: int [2]. Equal seeds and inputs give equal samples.
        """

    @abc.abstractmethod
    def _negative_log_probability(self, targets: Tensor) -> Tensor:
        """Returns the sum over examples of −log p(targets), shape []."""

    def evaluate(self) -> Tensor:
        """Returns the sum over examples of −log p(targets), shape [].

        Raises:
          ValueError: The loss was registered without targets.
        """
        if self._targets is None:
            raise ValueError(
                f"Cannot evaluate loss {self.name!r} on data: it has no targets. Register it with "
                "targets=..., or use estimation_mode='gradients', which samples them."
            )
        return self._negative_log_probability(tf.stop_gradient(self._targets))

    def evaluate_on_sample(self, seed: Tensor) -> Tensor:
        """Returns the sum over examples of −log p of targets drawn with `seed`, shape []."""
        return self._negative_log_probability(tf.stop_gradient(self.sample(seed)))


@typing.final
class CategoricalLogitsNegativeLogProbLoss(LossFunction):
    """Softmax cross-entropy: a categorical distribution given by its logits."""

    def __init__(self, logits: Tensor, targets: Tensor | None, name: str) -> None:
        """Keeps its arguments.

        Args:
          logits: [..., classes].
          targets: Class numbers [...], or None.
          name: Name of the loss.
        """
        super().__init__(name, targets)
        self._logits = logits

    @property
    def inputs(self) -> Tensor:
        """The logits [..., classes]."""
        return self._logits

    def sample(self, seed: Tensor) -> Tensor:
        """Draws class numbers, int64, shaped as the logits without their last axis.

        Args:
          seed: int [2]. Equal seeds and logits give equal samples.
        """
        shape = tf.shape(self._logits)
        flat = tf.reshape(self._logits, [-1, shape[-1]])
        drawn = tf.random.stateless_categorical(flat, num_samples=1, seed=seed, dtype=tf.int64)
        return tf.reshape(drawn, shape[:-1])

    def _negative_log_probability(self, targets: Tensor) -> Tensor:
        # Not the fused op: that one aborts the step for a class out of range, which a sample from
        # non-finite logits may be.
        log_probabilities = tf.nn.log_softmax(self._logits)
        classes = tf.shape(self._logits)[-1]
        chosen = tf.one_hot(tf.cast(targets, tf.int64), classes, True, False, dtype=tf.bool)
        return -tf.reduce_sum(tf.where(chosen, log_probabilities, tf.zeros_like(log_probabilities)))
