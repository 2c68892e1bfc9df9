"""Seeds and random signs.

Every draw is a function of a seed, which is made on the CPU, where TensorFlow reads it. The
optimizer makes its seeds from a name, a tower and a step that it saves, so a resumed run draws the
same numbers as an uninterrupted one. Losses that are evaluated by hand get seeds that are drawn
anew in each run of a session. The draws from predicted distributions are in `kfac.loss_functions`.
Called by losses, the loss table and the estimation modes.
"""

import numbers
import zlib
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.state import CPU

v1 = tf.compat.v1

Seed = Tensor | Sequence[int] | int | None
"""A pair of integers that fixes a draw; or an int or None for a new draw in each run."""


def stateless_seed(source: str, step: Scalar) -> Tensor:
    """Returns a seed, int64 [2], for TensorFlow's stateless draws.

    Args:
      source: Name of the drawing part; different sources draw independently.
      step: Number of this draw of the source, a number or an int Tensor [].
    """
    number = zlib.crc32(source.encode())
    with v1.device(CPU):
        return tf.stack([tf.constant(number, tf.int64), tf.cast(step, tf.int64)])


def fresh_numbers(shape: Sequence[int], seed: int | None) -> Tensor:
    """Draws numbers anew in each run of a session, int64 of the given shape.

    Another session repeats the sequence of numbers under the same conditions as that of
    TensorFlow's random ops: if there is a seed, or the graph has one (`set_random_seed`).

    Args:
      shape: Shape of the result.
      seed: Seed of the sequence; None means that of the graph. Without either, sessions differ.
    """
    with v1.device(CPU):
        return v1.random.uniform(shape, maxval=2**63 - 1, dtype=tf.int64, seed=seed)


def as_stateless_seed(seed: Seed, what: str) -> Tensor:
    """Returns a seed, int [2], for TensorFlow's stateless draws.

    Args:
      seed: int [2], which is returned; or an int or None for a seed that is drawn in each run.
      what: Text that names the action, for the error.

    Raises:
      ValueError: The seed is none of these.
    """
    if seed is None or isinstance(seed, numbers.Integral):
        return fresh_numbers([2], None if seed is None else int(seed))
    pair = tf.convert_to_tensor(seed)
    if not pair.dtype.is_integer or not pair.shape.is_compatible_with([2]):
        raise ValueError(
            f"Cannot {what}: the seed is a {pair.dtype.name} Tensor of shape {pair.shape}. "
            "Accepted are None and Python ints, for another draw in each run of a session, and two "
            "integers, for the same draw in each run. Pass such a seed."
        )
    return pair


def random_signs(shape: Tensor, dtype: DType, seed: Tensor) -> Tensor:
    """Draws +1 or −1 with equal probability for every entry.

    Args:
      shape: int [rank].
      dtype: Dtype of the result.
      seed: int [2]. Equal seeds give equal signs.
    """
    bits = tf.random.stateless_uniform(shape, seed, minval=0, maxval=2, dtype=tf.int32)
    return tf.cast(2 * bits - 1, dtype)
