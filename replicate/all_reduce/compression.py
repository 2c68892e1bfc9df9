"""Sums over workers in fewer bytes: values of 16, 8 or 4 bits, with error feedback.

Each worker owns a part of the vector. A worker sends every other one its part in few bits; the
owner adds up what it gets in 32 bits, and sends the sum to all in few bits. What is lost on either
way is a rest, which the worker that has lost it adds to its values of the next round. So the sums
of all rounds and the rests of all workers add up to what a sum in 32 bits has.

Reference: Seide et al. (2014), "1-Bit Stochastic Gradient Descent and its Application to
Data-Parallel Distributed Training of Speech DNNs", section 3.1 on the quantization error.
"""

import dataclasses
from typing import NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor
from replicate.all_reduce.group import WorkerGroup

v1 = tf.compat.v1

BLOCK = 256
"""Number of values that share a scale."""

_WORD = 32
"""Bits of a word that is sent."""

_MULTIPLES = [[byte // 16 - 8, byte % 16 - 8] for byte in range(256)]
"""Both multiples of 4 bits that a byte has: a look takes half the time of two divisions."""


@final
@dataclasses.dataclass(frozen=True)
class Code:
    """Code of float32 values in words of 32 bits.

    With 16 bits, values are bfloat16. With 8 or 4, they are whole multiples of a scale, which a
    block of `BLOCK` values has: its largest magnitude is the largest multiple, 127 or 7.

    Attributes:
      bits: Bits of a value: 16, 8 or 4.
    """

    bits: int

    def encode(self, values: Tensor) -> Tensor:
        """Returns the words, int32 [rows, words].

        Args:
          values: float32 [rows, length]; the length is a multiple of `BLOCK`.
        """
        rows = values.shape[0]
        if self.bits == 16:
            pairs = tf.reshape(tf.cast(values, tf.bfloat16), [rows, -1, 2])
            return tf.bitcast(pairs, tf.int32)
        blocks = tf.reshape(values, [rows, -1, BLOCK])
        scales = tf.reduce_max(tf.abs(blocks), axis=2) / self._largest
        multiples = tf.round(tf.math.divide_no_nan(blocks, scales[:, :, tf.newaxis]))
        return tf.concat([self._packed(multiples, rows), tf.bitcast(scales, tf.int32)], axis=1)

    def decode(self, words: Tensor) -> Tensor:
        """Returns the values that words stand for, float32 [rows, length].

        Args:
          words: As `encode` returns them.
        """
        rows = words.shape[0]
        if self.bits == 16:
            pairs = tf.bitcast(words, tf.bfloat16)
            return tf.cast(tf.reshape(pairs, [rows, -1]), tf.float32)
        of_block = BLOCK * self.bits // _WORD
        blocks = words.shape[1] // (of_block + 1)
        multiples = self._unpacked(words[:, : blocks * of_block], rows)
        scales = tf.bitcast(words[:, blocks * of_block :], tf.float32)
        return tf.reshape(multiples * scales[:, :, tf.newaxis], [rows, -1])

    @property
    def _largest(self) -> int:
        return 2 ** (self.bits - 1) - 1

    def _packed(self, multiples: Tensor, rows: int) -> Tensor:
        """Packs whole numbers of magnitudes up to the largest into words: int32 [rows, words]."""
        if self.bits == 8:
            codes = tf.cast(multiples, tf.int8)
        else:
            halves = tf.reshape(tf.cast(multiples + 8, tf.uint8), [rows, -1, 2])
            codes = halves[:, :, 0] * tf.constant(16, tf.uint8) + halves[:, :, 1]
        return tf.bitcast(tf.reshape(codes, [rows, -1, 4]), tf.int32)

    def _unpacked(self, words: Tensor, rows: int) -> Tensor:
        """Returns what `_packed` got, float32 [rows, blocks, BLOCK]."""
        if self.bits == 8:
            codes = tf.cast(tf.bitcast(words, tf.int8), tf.float32)
        else:
            pairs = tf.cast(tf.bitcast(words, tf.uint8), tf.int32)
            codes = tf.gather(tf.constant(_MULTIPLES, tf.float32), pairs)
        return tf.reshape(codes, [rows, -1, BLOCK])


class CompressedSum(NamedTuple):
    """A sum over workers, and what this worker has to add to its values of the next sum.

    Attributes:
      total: Sum, the same on all workers, float32 [length].
      rest: What was lost on this worker, float32 [length].
    """

    total: Tensor
    rest: Tensor


def compressed_sum(values: Tensor, group: WorkerGroup, code: Code) -> CompressedSum:
    """Adds up vectors over workers.

    Args:
      values: Vector of this worker, with the rest of its last sum: float32 [length].
      group: The workers.
      code: Code of what is sent.
    """
    length, size = values.shape[0], group.size
    part = max(1, -(-length // (size * BLOCK))) * BLOCK
    with v1.name_scope("compressed_sum"), v1.device(CPU):
        own = tf.reshape(tf.pad(values, [[0, size * part - length]]), [size, part])
        words = code.encode(own)
        rest = own - code.decode(words)
        received = tf.reduce_sum(code.decode(group.exchanged(words)), axis=0, keepdims=True)
        of_part = code.encode(received)
        lost = received - code.decode(of_part)
        rest += tf.pad(lost, [[group.rank, size - 1 - group.rank], [0, 0]])
        total = code.decode(group.gathered(of_part))
        total, rest = (tf.reshape(each, [-1])[:length] for each in (total, rest))
        return CompressedSum(total, rest)
