"""Batch renormalization: corrections that make a batch's statistics those of the average.

Reference:
  Ioffe (2017), Batch Renormalization, https://arxiv.org/abs/1702.03275, §3
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate.compat.layers.conditions import choose
from replicate.compat.layers.moving_average import move_towards

v1 = tf.compat.v1
_LIMITS = frozenset({"rmin", "rmax", "dmax"})


class Renormalization:
    """Averages of a batch normalization that renormalizes, and its corrections.

    Attributes:
      mean: Variable, average mean of the batches in training.
      stddev: Variable, average deviation of the batches in training.
      moving_stddev: Variable, average deviation for inference.
    """

    mean: Any
    stddev: Any
    moving_stddev: Any

    def __init__(self, epsilon: float, clipping: Mapping[str, Any], momentum: Any) -> None:
        """Keeps the settings.

        Args:
          epsilon: Added to variances.
          clipping: Limits "rmin", "rmax" and "dmax"; one that is missing does not limit.
          momentum: Weight of the old averages.

        Raises:
          ValueError: There is no limit of a name.
        """
        unknown = sorted(clipping.keys() - _LIMITS)
        if unknown:
            raise ValueError(f"renorm_clipping has keys {unknown}: it takes rmin, rmax and dmax.")
        self._epsilon = epsilon
        self._clipping = dict(clipping)
        self._momentum = momentum

    def add_variables(
        self, moving: Callable[[str, Any], Any], of_mean: Any, of_variance: Any
    ) -> None:
        """Makes the variables.

        Args:
          moving: Makes a variable from a name and an initializer.
          of_mean: Initializer of means.
          of_variance: Initializer of variances.
        """
        maker = of_variance() if isinstance(of_variance, type) else of_variance

        def of_stddev(*args: Any, **kwargs: Any) -> Any:
            return tf.sqrt(maker(*args, **kwargs))

        self.moving_stddev = moving("moving_stddev", of_stddev)
        self.mean = moving("renorm_mean", of_mean)
        self.stddev = moving("renorm_stddev", of_stddev)

    def corrections(
        self, mean: Any, variance: Any, training: Any
    ) -> tuple[Any, Any, tuple[Any, Any]]:
        """Returns factor r and summand d of normalized values, and the moments for averages.

        Whoever takes the moments updates the averages of this object before.

        Args:
          mean: Mean of the batch.
          variance: Variance of the batch.
          training: True in training, a bool or a Tensor; else r is 1 and d is 0.
        """
        stddev = tf.sqrt(variance + self._epsilon)
        average = tf.maximum(self.stddev, tf.sqrt(tf.constant(self._epsilon, stddev.dtype)))
        factor = stddev / average
        summand = (mean - self.mean) / average
        with tf.control_dependencies([factor, summand]):
            new = tf.identity(mean), tf.identity(stddev)
        factor, summand = self._clipped(factor, summand)
        factor = choose(training, lambda: factor, lambda: tf.ones_like(factor))
        summand = choose(training, lambda: summand, lambda: tf.zeros_like(summand))
        updates = [
            self._moved(variable, value, training)
            for variable, value in zip((self.mean, self.stddev), new, strict=True)
        ]
        with tf.control_dependencies(updates):
            moments = tf.identity(mean), tf.identity(variance)
        return (
            tf.stop_gradient(factor, name="renorm_r"),
            tf.stop_gradient(summand, name="renorm_d"),
            moments,
        )

    def _clipped(self, factor: Any, summand: Any) -> tuple[Any, Any]:
        limits = self._clipping
        if limits.get("rmin") is not None:
            factor = tf.maximum(factor, limits["rmin"])
        if limits.get("rmax") is not None:
            factor = tf.minimum(factor, limits["rmax"])
        if limits.get("dmax") is not None:
            summand = tf.minimum(tf.maximum(summand, -limits["dmax"]), limits["dmax"])
        return factor, summand

    def _moved(self, variable: Any, value: Any, training: Any) -> Any:
        return choose(
            training,
            lambda: tf.identity(move_towards(variable, value, self._momentum)),
            lambda: tf.identity(variable),
        )

    def move_variance(self, variable: Any, variance: Any, momentum: Any) -> Any:
        """Moves the average deviation for inference, and assigns its square to the variance."""
        stddev = move_towards(self.moving_stddev, tf.sqrt(variance + self._epsilon), momentum)
        moved = tf.nn.relu(tf.square(stddev) - self._epsilon)
        return v1.assign(variable, moved, name="AssignNewValue")
