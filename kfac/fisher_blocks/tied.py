"""The block of an embedding whose table is also the weight of the output layer.

A sum of the blocks of both uses, written as one Kronecker product; see `kfac.fisher_factors.tied`.
"""

import typing

from kfac._types import Scalar
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.kronecker import KroneckerBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.tied import TiedColumnsFactor, TiedRowsFactor


@typing.final
class TiedEmbeddingFB(KroneckerBlock):
    """A⊗G / tr A, with a diagonal A of the rows of the table, and a matrix G of its columns.

    Its inputs in a tower are (ids, hidden), its outputs (looked up, logits).
    """

    settings = ()

    def replications(self) -> Scalar:
        """Returns 1 / tr A, read now."""
        return 1 / typing.cast(TiedRowsFactor, self.input_factor).trace_or_one()

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        make, table = self.factor_maker.make_or_get_factor, as_tuple(self.params)[0]
        tensors = tuple(tuple(zip(self.inputs, towers, strict=True)) for towers in gradients)
        args = tensors, self.matrix_shape, table.dtype.base_dtype, self.devices
        a = make(TiedRowsFactor, args, name=f"{self.name}/input")
        return a, make(TiedColumnsFactor, args, name=f"{self.name}/output")
