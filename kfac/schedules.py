"""Settings that are computed: functions without arguments that return a number or a Tensor.

The rest of the package takes a function wherever it takes a number (`kfac.linalg.as_scalar`). Here
a user's function is made into one that may be used in many places. Called by the optimizer.
"""

import functools

import tensorflow as tf

from kfac._types import Scalar


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
