"""Settings that are computed: functions without arguments that return a number or a Tensor.

The rest of the package accepts a function wherever it accepts a number (`kfac.linalg.as_scalar`).
This module turns a user's function into one that may be used in many places. Called by the
optimizers.
"""

import functools

import tensorflow as tf

from kfac._types import Scalar


def called_once(value: Scalar) -> Scalar:
    """Returns a setting that may be used many times and in conditional branches.

    A function is called once, at first use, outside of control dependencies and branches. A number,
    Tensor or Variable is returned as it is.
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
