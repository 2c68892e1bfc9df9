"""LARS: You, Gitman and Ginsburg (2017), "Large Batch Training of Convolutional Networks"."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable

v1 = tf.compat.v1


class LARSOptimizer(v1.train.Optimizer):
    """Momentum whose rate is scaled for each variable w, by the trust ratio of algorithm 1.

    With the gradient g, weight decay β and the coefficient η, the rate is multiplied by
    η·‖w‖ / (‖g‖ + β·‖w‖ + ε), and β·w is added to g.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Iterable[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        """Keeps the settings.

        Args:
          learning_rate: The rate before it is scaled: a number, a scalar tensor, or
            a function that returns one.
          momentum: Share of the last step that is kept.
          weight_decay: β.
          eeta: η.
          epsilon: ε, added to the denominator.
          name: Name of the operations.
          skip_list: Parts of names of variables that have plain momentum without weight decay,
            such as ["batch_normalization", "bias"].
          use_nesterov: True for Nesterov momentum.

        Raises:
          ValueError: momentum is negative.
        """
        if momentum < 0:
            raise ValueError(f"LARSOptimizer: momentum must be >= 0, got {momentum}.")
        super().__init__(False, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skipped = tuple(skip_list or ())
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Iterable[Variable]) -> None:
        for each in var_list:
            self._zeros_slot(each, "momentum", self._name)

    def compute_lr(self, grad: Tensor, var: Variable) -> tuple[Tensor, Tensor]:
        """Returns the scaled rate of a variable, and its gradient with the weight decay added."""
        given = self._learning_rate() if callable(self._learning_rate) else self._learning_rate
        rate = tf.cast(given, grad.dtype)
        if any(part in var.name for part in self._skipped):
            return rate, grad
        weights = tf.convert_to_tensor(var)
        of_weights, of_grad = tf.norm(weights), tf.norm(grad)
        ratio = (
            self._eeta * of_weights / (of_grad + self._weight_decay * of_weights + self._epsilon)
        )
        is_used = tf.logical_and(of_weights > 0, of_grad > 0)
        return rate * tf.where(is_used, ratio, tf.ones_like(ratio)), (
            grad + self._weight_decay * weights
        )

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate, decayed = self.compute_lr(grad, var)
        return tf.raw_ops.ApplyMomentum(
            var=var,
            accum=self.get_slot(var, "momentum"),
            lr=rate,
            grad=decayed,
            momentum=tf.cast(self._momentum, grad.dtype),
            use_nesterov=self._use_nesterov,
        )

    def _resource_apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate, decayed = self.compute_lr(grad, var)
        return tf.raw_ops.ResourceApplyMomentum(
            var=var.handle,
            accum=self.get_slot(var, "momentum").handle,
            lr=rate,
            grad=decayed,
            momentum=tf.cast(self._momentum, grad.dtype),
            use_nesterov=self._use_nesterov,
        )

    def _apply_sparse(self, grad: Any, var: Variable) -> Operation:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        dense = tf.scatter_nd(
            tf.expand_dims(indices, 1), grad, tf.shape(var, out_type=indices.dtype)
        )
        return self._resource_apply_dense(dense, var)
