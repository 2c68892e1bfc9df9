"""Settings that are computed: functions without arguments that return a number or a Tensor.

The rest of the package takes a function wherever it takes a number (`kfac.linalg.as_scalar`). Here
a user's function is made into one that may be used in many places; and what periods mean, which may
be such settings, too. Called by the optimizers.
"""

import functools
import numbers

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.linalg import tensor_ops
from kfac.state import CPU


def called_once(value: Scalar) -> Scalar:
    """Returns a setting that may be used many times and in conditional branches.

    Args:
      value: A number, Tensor or Variable, which is returned as it is; or a function, which will be
        called once, at first use, outside of control dependencies and branches.
    """
    if not callable(value):
        return value

    @functools.cache
    def get() -> Scalar:
        with tf.init_scope():
            return value()

    return get


def current(value: Scalar) -> Scalar:
    """Returns what a setting is: a function's result, and anything else itself."""
    return value() if callable(value) else value


def is_due(step: Tensor, period: Scalar) -> Tensor | bool:
    """Returns whether something that is done every `period` steps is due; Python's True if always.

    It is found on the CPU, which decides what runs.

    Args:
      step: int64 [], from 0, at which it is due.
      period: Steps, ≥ 1; smaller Tensors stand for 1.
    """
    if isinstance(period, int) and period == 1:
        return True
    with tf.compat.v1.device(CPU):
        if isinstance(period, int):
            return tf.equal(step % period, 0)
        return tf.equal(step % tf.maximum(tensor_ops.as_scalar(period, step.dtype), 1), 0)


def decay_per_update(decay: Scalar, steps: int) -> Scalar:
    """Returns the weight of the past per update, given that per step.

    Args:
      decay: In [0, 1].
      steps: From one update to the next, ≥ 1.
    """
    if steps == 1:
        return decay
    if isinstance(decay, numbers.Real):
        return float(decay) ** steps
    return functools.partial(_power, called_once(decay), steps)


def _power(decay: Scalar, exponent: int) -> Tensor:
    return tensor_ops.as_scalar(decay, tf.float64) ** exponent
