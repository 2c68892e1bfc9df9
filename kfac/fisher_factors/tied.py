"""The statistics of an embedding whose table is also the weight of the output layer.

The table W [V, D] is looked up, x = Wᵀe for the one-hot vector e of an id, and gives the logits
s = W h. With the gradients g of x and δ of s, an example's gradient of W is a sum over positions of
matrices v dᵀ, namely e gᵀ and δ hᵀ. These are taken as independent, so the block is
F = E[Σ (v vᵀ)⊗(d dᵀ)], a sum of two very different Kronecker products. It is approximated by the
product of its partial traces, which are sums over both uses:

  F ≈ A⊗G / tr A,    A = diag E[Σ |d|² v∘v],    G = E[Σ |v|² d dᵀ],    tr A = tr G = tr F

A position that the loss ignores adds nothing to any of these sums. Called by the block of
`kfac.fisher_blocks.tied`.

References:
  Eschenhagen, Immer, Turner, Schneider & Hennig (2023), arXiv:2311.00636, §3, for the sums over
  positions.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg.tensor_ops import num_rows, outer_product


class _OfTiedTable(FisherFactor):
    """A factor of a table [V, D] with two uses.

    The arguments are those of `FisherFactor`, and:

      tensors: ((ids [N, ...], hidden h [..., D]), (g [..., D], δ [..., V])).
      shape: (V, D).
      dtype: Dtype of the table.
    """

    def __init__(
        self,
        tensors: Sources,
        shape: tuple[int, int],
        dtype: DType,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config, dtype)
        self._rows, self._columns = shape

    def _parts(self, tensors: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns ids [r], g [r, D], h [s, D] and δ [s, V]."""
        (ids, hidden), (g, delta) = tensors
        h, g = (tf.reshape(tf.cast(t, self.dtype), [-1, self._columns]) for t in (hidden, g))
        delta = tf.reshape(tf.cast(delta, self.dtype), [-1, self._rows])
        return tf.reshape(ids, [-1]), g, h, delta


def _squared_lengths(rows: Tensor) -> Tensor:
    return tf.reduce_sum(tf.square(rows), axis=1)


@typing.final
class TiedRowsFactor(_OfTiedTable, DiagonalFactor):
    """A, the diagonal of the rows of the table; the arguments are those of `_OfTiedTable`."""

    @property
    def dimension(self) -> int:
        """V."""
        return self._rows

    def _tower_moment(self, tensors: Any) -> Moment:
        ids, g, h, delta = self._parts(tensors)
        looked_up = tf.math.unsorted_segment_sum(_squared_lengths(g), ids, self._rows)
        predicted = tf.linalg.matvec(tf.square(delta), _squared_lengths(h), transpose_a=True)
        return Moment(looked_up + predicted, num_rows(tensors[0][0]))

    def trace_or_one(self) -> Tensor:
        """Returns tr A, read now, shape []; 1 as long as there is no statistic."""
        trace = self.trace()
        return tf.where(self.read_weight() > 0, trace, tf.ones_like(trace))


@typing.final
class TiedColumnsFactor(_OfTiedTable, MatrixFactor):
    """G [D, D]; the arguments are those of `_OfTiedTable`."""

    @property
    def dimension(self) -> int:
        """D."""
        return self._columns

    def _tower_moment(self, tensors: Any) -> Moment:
        _, g, h, delta = self._parts(tensors)
        lengths = tf.sqrt(_squared_lengths(delta))[:, tf.newaxis]
        return Moment(outer_product(g) + outer_product(lengths * h), num_rows(tensors[0][0]))
