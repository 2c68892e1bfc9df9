"""The factors of dense layers: second moments of vectors, whole or along the diagonal.

Called by the dense blocks, for a layer's inputs and for the gradients of its outputs. A layer that
is applied several times to an example gives one tensor per use, or all uses folded into the rows.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, RowFactor
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg import tensor_ops


class VectorFactor(FisherFactor):
    """What factors of dense layers share: inputs that may get a trailing 1."""

    def __init__(
        self,
        tensors: Sources,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: By [source][tower]; see the class.
          has_bias: Whether inputs get a column of ones.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config)
        self._has_bias = has_bias

    def _with_ones(self, rows: Tensor) -> Tensor:
        """Returns rows [r, n], or [r, n + 1] with a bias."""
        return tensor_ops.append_homogeneous(rows) if self._has_bias else rows


@typing.final
class FullyConnectedKroneckerFactor(VectorFactor, RowFactor):
    """XᵀX / rows of tensors X [rows, n]; Martens & Grosse (2015), §3.

    Made of X, or uses of it; see `kfac.fisher_factors.uses.as_uses`.
    """

    @property
    def dimension(self) -> int:
        """n, plus 1 with a bias.

        Raises:
          ValueError: The tensors are not as above, with static n.
        """
        return self._vector_size() + int(self._has_bias)

    def rows(self, tensors: Any) -> Tensor:
        """Returns X [rows, n], or [rows, n + 1] with a bias."""
        return self._with_ones(fold_uses(tensors, 1))


@typing.final
class DiagonalKroneckerFactor(DiagonalFactor):
    """The diagonal of the second moment of vectors, or of one-hot vectors given as numbers.

    For an embedding, ids [rows, ...] stand for rows that are the sum of one-hot vectors of their
    ids. With one id in a row the second moment is diagonal, and its diagonal is the share of the
    rows that have each id; with several, their count over the rows is taken all the same.
    """

    def __init__(
        self,
        tensors: Sources,
        one_hot_depth: int | None,
        has_bias: bool,
        dtype: DType,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: X [rows, n] by [source][tower], or integer ids [rows] or [rows, k]; or a tuple
            of such, one for each use.
          one_hot_depth: Number of different ids, or None if the tensors are X.
          has_bias: Whether a 1 is appended to X.
          dtype: That of X, also if ids stand for it.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config, dtype)
        self._one_hot_depth = one_hot_depth
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """N or the number of ids, plus 1 with a bias.

        Raises:
          ValueError: The tensors are not as above, with static n.
        """
        return (self._one_hot_depth or self._vector_size()) + int(self._has_bias)

    def _tower_moment(self, tensors: Any) -> Moment:
        if self._one_hot_depth:
            total, rows = self._counted_ids(tf.nest.flatten(tensors))
        else:
            x = tf.cast(fold_uses(tensors, 1), self.dtype)
            total, rows = tf.reduce_sum(x**2, axis=0), tf.shape(x)[0]
        if self._has_bias:
            total = tf.concat([total, tf.cast(rows, self.dtype)[tf.newaxis]], axis=0)
        return Moment(total, rows)

    def _counted_ids(self, tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Returns how often each id occurs [one_hot_depth], and the number of rows."""
        ids = tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)
        ones = tf.ones(tf.shape(ids), self.dtype)
        # An id outside of the range would be an error on a CPU and nothing on a GPU; it counts for
        # nothing here, and the embedding itself reports it.
        total = tf.math.unsorted_segment_sum(ones, ids, self._one_hot_depth)
        return total, tf.add_n([tf.shape(t)[0] for t in tensors])


@typing.final
class FullyConnectedDiagonalFactor(VectorFactor, DiagonalFactor):
    """The diagonal of E[(a gᵀ)²], flattened: (a²)ᵀ(g²)/N.

    Made of (a [N, inputs], g [N, outputs]), inputs and output gradients.
    """

    @property
    def dimension(self) -> int:
        """(inputs, plus 1 with a bias) · outputs.

        Raises:
          ValueError: The tensors are not as above, with static sizes.
        """
        a, g = self._tensors[0][0]
        inputs = self._checked_size(a, rank=2) + int(self._has_bias)
        return inputs * self._checked_size(g, rank=2)

    def _tower_moment(self, tensors: Any) -> Moment:
        a, g = (tf.cast(t, self.dtype) for t in tensors)
        total = tf.matmul(self._with_ones(a) ** 2, g**2, transpose_a=True)
        return Moment(tf.reshape(total, [-1]), tf.shape(a)[0])
