"""Settings that are computed: functions without arguments that return a number or a Tensor.

The rest of the package accepts a function wherever it accepts a number (`kfac.linalg.as_scalar`).
This module turns a user's function into one that may be used in many places. It also defines
periods, which may be such settings, too. Called by the optimizers.
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
      value: A number, Tensor or Variable, which is returned as it is; or a function, which is
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
    """Returns the value of a setting: a function's result, and anything else itself."""
    return value() if callable(value) else value


def is_due(step: Tensor, period: Scalar) -> Tensor | bool:
    """Returns a bool, true if a task that runs every `period` steps is due.

    The test runs on the CPU, which decides which ops run. A period of 1 gives Python's True.

    Args:
      step: int64 []; the task is due at step 0.
      period: Steps between two runs, ≥ 1; smaller Tensors count as 1.
    """
    if isinstance(period, int) and period == 1:
        return True
    with tf.compat.v1.device(CPU):
        if isinstance(period, int):
            return tf.equal(step % period, 0)
        return tf.equal(step % tf.maximum(tensor_ops.as_scalar(period, step.dtype), 1), 0)


def decay_per_update(decay: Scalar, steps: int) -> Scalar:
    """Returns the weight of the past per update, from the weight per step.

    Args:
      decay: Weight of the past per step, in [0, 1].
      steps: Steps from one update to the next, ≥ 1.
    """
    if steps == 1:
        return decay
    if isinstance(decay, numbers.Real):
        return float(decay) ** steps
    return functools.partial(_power, called_once(decay), steps)


def _power(decay: Scalar, exponent: int) -> Tensor:
    return tensor_ops.as_scalar(decay, tf.float64) ** exponent
