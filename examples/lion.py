"""Lion, a custom `tf.compat.v1` optimizer, and a model_fn that trains with it.

`Lion` needs no code for towers: once per step it gets gradients summed over all towers, and its
slots are made once. `model_fn` only wraps it in `replicate.TowerOptimizer`. The program is
`examples/bring_your_own_optimizer.py`.

Reference: Chen et al. (2023), "Symbolic Discovery of Optimization Algorithms", algorithm 2,
arXiv 2302.06675.
"""

from typing import Any

import tensorflow as tf

import replicate
from examples import mlp

v1 = tf.compat.v1


class Lion(v1.train.Optimizer):
    """Moves each weight by the learning rate, in the direction of the sign of a momentum.

    With gradient g, momentum m, learning rate η and decay λ:
    w ← w − η·(sign(β₁m + (1 − β₁)g) + λw), then m ← β₂m + (1 − β₂)g.
    """

    def __init__(
        self,
        learning_rate: float,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
        name: str = "Lion",
    ) -> None:
        """Keeps the settings.

        Args:
          learning_rate: η > 0, about a tenth of Adam's.
          beta1: β₁ in [0, 1), weight of the past in the direction.
          beta2: β₂ in [0, 1), weight of the past in what is kept.
          weight_decay: λ ≥ 0.
          name: Of the operations and slots.
        """
        super().__init__(use_locking=False, name=name)
        self._learning_rate = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._weight_decay = weight_decay

    def _create_slots(self, var_list: list[Any]) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "momentum", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        momentum = self.get_slot(var, "momentum")
        past = tf.identity(momentum)
        direction = tf.sign(self._beta1 * past + (1 - self._beta1) * grad)
        change = self._learning_rate * (direction + self._weight_decay * tf.identity(var))
        with v1.control_dependencies([change]):  # The direction is of the momentum before.
            kept = v1.assign(momentum, self._beta2 * past + (1 - self._beta2) * grad)
        return tf.group(v1.assign_sub(var, change), kept)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply_dense(grad, handle)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Builds one tower of the network of `examples.mlp`, trained by Lion.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch].
      mode: One of replicate.ModeKeys.
      params: The arguments of `Lion`.

    Returns:
      A replicate.EstimatorSpec.
    """
    logits = mlp.build_model(features)[-1].outputs
    loss = mlp.mean_loss(logits, labels)
    accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=1, output_type=tf.int32))
    optimizer = replicate.TowerOptimizer(lambda: Lion(**params))
    return replicate.EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=v1.train.get_global_step()),
        eval_metric_ops={"accuracy": accuracy},
    )
