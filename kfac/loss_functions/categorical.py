"""Categorical distributions given by logits: softmax cross-entropy.

With p = softmax(logits) and q = √p, by example: F = diag(p) − p pᵀ and B = diag(q) − p qᵀ. Since
the probabilities add up to one, B Bᵀ = F.

It also follows that F 1 = 0, Bᵀ 1 = 0 and B q = 0. So a vector may be shifted by a multiple of 1 or
q that makes its entry for the most probable class zero. Without this shift, products of a confident
distribution would be small differences of large numbers.

References:
  Martens (2014), arXiv:1412.1193, §9.
"""

import typing
from typing import ClassVar

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg import tensor_ops
from kfac.linalg.shared import shared_constant
from kfac.loss_functions.base import LogitsLoss
from kfac.xla import is_compiled

v1 = tf.compat.v1


class _CategoricalLoss(LogitsLoss):
    """Softmax cross-entropy, for any form of the targets."""

    _event_axes: ClassVar[int] = 1

    def _sample(self, seed: Tensor) -> Tensor:
        """Draws class numbers, int64, shaped as the logits without their last axis."""
        shape = tf.shape(self.inputs)
        flat = tf.reshape(self.inputs, [-1, self._classes])
        if is_compiled():
            drawn = _largest_of_perturbed(flat, seed)
        else:
            drawn = tf.random.stateless_categorical(flat, num_samples=1, seed=seed, dtype=tf.int64)
        return tf.reshape(drawn, shape[:-1])

    def _is_likeliest(self) -> Tensor:
        """Returns bool [..., classes], true for the most probable class of each example."""
        # In a branch these ops must not take the names of ops outside; see `kfac.state.value_if`.
        with v1.name_scope("likeliest_class"):
            likeliest = tf.argmax(self.inputs, axis=-1)
            return tf.one_hot(likeliest, self._classes, True, False, dtype=tf.bool)

    @property
    def _classes(self) -> Tensor | int:
        """The number of classes; without an operation if it is known."""
        return tensor_ops.static_size(self.inputs, -1) or tf.shape(self.inputs)[-1]

    def _fisher_product(self, vector: Tensor) -> Tensor:
        p = tf.nn.softmax(self.inputs)
        return p * _centred(vector, p, self._is_likeliest())

    def _factor_product(self, vector: Tensor) -> Tensor:
        p = tf.nn.softmax(self.inputs)
        q = tf.sqrt(p)
        is_likeliest = self._is_likeliest()
        multiple = _entry(vector, is_likeliest) / _entry(q, is_likeliest)
        zero = shared_constant(0, [], p.dtype, p.device)
        shifted = tf.where(is_likeliest, zero, vector - multiple * q)
        return q * shifted - p * tf.reduce_sum(q * shifted, axis=-1, keepdims=True)

    def _factor_transpose_product(self, vector: Tensor) -> Tensor:
        p = tf.nn.softmax(self.inputs)
        return tf.sqrt(p) * _centred(vector, p, self._is_likeliest())


def _largest_of_perturbed(logits: Tensor, seed: Tensor) -> Tensor:
    """Draws classes, int64 [n], for logits [n, classes], in a function that XLA compiles.

    TensorFlow's own draw has no kernel there. With independent U, uniform in (0, 1), the largest of
    the logits − log(−log U) has the distribution of the logits (Gumbel, 1954).
    """
    wide = tf.cast(logits, tensor_ops.statistics_dtype(logits.dtype))
    least = np.finfo(wide.dtype.as_numpy_dtype).tiny
    uniform = tf.random.stateless_uniform(tf.shape(wide), seed, least, 1, wide.dtype)
    return tf.argmax(wide - tf.math.log(-tf.math.log(uniform)), axis=-1)


def _entry(vector: Tensor, is_chosen: Tensor) -> Tensor:
    """Returns the chosen entry of a vector [..., classes] for each example: [..., 1]."""
    zero = shared_constant(0, [], vector.dtype, vector.device)
    return tf.reduce_sum(tf.where(is_chosen, vector, zero), axis=-1, keepdims=True)


def _centred(vector: Tensor, p: Tensor, is_likeliest: Tensor) -> Tensor:
    """Returns v − (p·v) 1 for vectors v [..., classes]."""
    shifted = vector - _entry(vector, is_likeliest)
    return shifted - tf.reduce_sum(p * shifted, axis=-1, keepdims=True)


@typing.final
class CategoricalLogitsNegativeLogProbLoss(_CategoricalLoss):
    """Softmax cross-entropy; targets are class numbers [...]."""

    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        # The fused op is not used: it aborts the step for a class out of range, which a sample from
        # non-finite logits may be.
        log_probabilities = tf.nn.log_softmax(self.inputs)
        classes = tf.cast(targets, tf.int64)
        is_target = tf.one_hot(classes, self._classes, True, False, dtype=tf.bool)
        return -_entry(log_probabilities, is_target)


@typing.final
class OnehotCategoricalLogitsNegativeLogProbLoss(_CategoricalLoss):
    """Softmax cross-entropy; targets are one-hot vectors, or probabilities, [..., classes]."""

    def _sample(self, seed: Tensor) -> Tensor:
        """Draws one-hot vectors, shaped as the logits and of their dtype."""
        drawn = tf.one_hot(super()._sample(seed), self._classes, dtype=self.dtype)
        return tf.ensure_shape(drawn, self.inputs.shape)

    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        counts = self._targets_like_inputs(targets)
        # A class that is ruled out has a log-probability of −inf.
        of_targets = tf.math.multiply_no_nan(tf.nn.log_softmax(self.inputs), counts)
        return -tf.reduce_sum(of_targets, axis=-1, keepdims=True)
