"""The blocks of layers whose weight is shared along positions: K-FAC-expand and K-FAC-reduce.

The gradient of an example is Σ_r V_r with V_r = ā_r g_rᵀ [inputs, outputs] at position r.

  expand   F ≈ A⊗G with the mean of ā āᵀ over positions, and the sum of g gᵀ over them
  reduce   F ≈ A⊗G with ā averaged, and g summed, over the positions of an example first

Expand takes the positions of an example as independent, and is exact in a deep linear network whose
loss has a term for each position. Reduce takes one position's gradient to be like another's, and is
exact in a deep linear network that averages over positions before its loss. Both assume, as all
K-FAC does, that ā and g are independent. Without a mask, expand is T·E[ā āᵀ]⊗E[g gᵀ] of
`kfac.fisher_blocks.multi`, with T in G; G so has T's share of the damping, too.
`kfac.fisher_factors.weight_sharing` computes the means, `kronecker` the damping and the products.

References:
  Eschenhagen, Immer, Turner, Schneider & Hennig (2023), arXiv:2311.00636, §3.
"""

import math
import typing
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, as_tuple, layer_params_to_mat2d
from kfac.fisher_blocks.conv import ConvolutionBlock
from kfac.fisher_blocks.kronecker import KroneckerBlock, as_text
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.weight_sharing import (
    SharedGradientFactor,
    SharedIdsFactor,
    SharedInputFactor,
)
from kfac.linalg.damped_functions import MatrixFunction


class SharedForm(typing.NamedTuple):
    """The form of the block of a shared weight.

    `reduces` is true for "reduce". `output_axes` is the number of axes at the end of the weight
    whose entries are outputs. Inputs are vectors if `dense_inputs`, else ids of one-hot vectors.
    """

    reduces: bool
    output_axes: int = 1
    dense_inputs: bool = True


@typing.final
class WeightSharingFB(KroneckerBlock):
    """A⊗G of a dense layer, or an embedding, that is applied at the positions of an example.

    Its inputs in a tower are (places, masks), its outputs places: tuples of tensors [N, ...], one
    of each place in the graph. Outputs may be [N·R, outputs], too.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters, form: SharedForm) -> None:
        super().__init__(layer_collection, params)
        self._form = form

    @property
    def settings(self) -> tuple[Any, ...]:
        """The form."""
        return (self._form,)

    def replications(self) -> Scalar:
        """Returns 1: G has the sum over positions."""
        return 1

    def describe(self) -> str:
        """Returns a short text such as "kron_expand 401x401 (x) 16x16"."""
        name = "kron_reduce" if self._form.reduces else "kron_expand"
        return f"{name} {as_text(self.matrix_shape)}"

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Numbers of rows of A and of G that the parameters need, from static shapes."""
        weight, *bias = as_tuple(self.params)
        outputs = math.prod(weight.shape.as_list()[-self._form.output_axes :])
        return weight.shape.num_elements() // outputs + len(bias), outputs

    def _as_matrix(self, vector: Parameters) -> Tensor:
        if self.has_bias:
            return layer_params_to_mat2d(vector)
        return tf.reshape(vector, self.matrix_shape)

    def product_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """See `FisherBlock.product_or_identity`; returns None for outputs of several axes."""
        if self._form.output_axes > 1:
            return None
        return self._kept_or_identity(function, vector, transpose)

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        make, form, name = self.factor_maker.make_or_get_factor, self._form, f"{self.name}/input"
        table = as_tuple(self.params)[0]
        if form.dense_inputs:
            args: tuple[Any, ...] = (self.inputs,), self.has_bias, form.reduces, None, self.devices
            a = make(SharedInputFactor, args, name=name)
        else:
            depth, dtype = self.matrix_shape[0], table.dtype.base_dtype
            args = (self.inputs,), depth, form.reduces, dtype, self.devices
            a = make(SharedIdsFactor, args, name=name)
        places = [inputs[0] for inputs in self.inputs]
        tensors = tuple(tuple(zip(towers, places, strict=True)) for towers in gradients)
        args = tensors, form.reduces, None, self._axes_of_gradients(gradients), self.devices
        return a, make(SharedGradientFactor, args, name=f"{self.name}/output")

    def _axes_of_gradients(self, gradients: Sources) -> int:
        """Returns the number of axes of outputs at the end of gradients, which may be folded."""
        first = tf.nest.flatten(gradients)[0].shape
        is_folded = first.rank is not None and first[-1] == self.matrix_shape[1]
        return 1 if is_folded else self._form.output_axes


@typing.final
class ConvReduceFB(ConvolutionBlock, KroneckerBlock):
    """A⊗G of a convolution, with patches averaged and gradients summed over its locations.

    Parameters are a filter [..., channels, outputs], or (filter, bias [outputs]).
    """

    product_or_identity = KroneckerBlock._kept_or_identity

    def replications(self) -> Scalar:
        """Returns 1: G has the sum over locations."""
        return 1

    def describe(self) -> str:
        """Returns a short text such as "kron_reduce 26x26 (x) 16x16"."""
        return f"kron_reduce {as_text(self.matrix_shape)}"

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        make, geometry, devices = self.factor_maker.make_or_get_factor, self._geometry, self.devices
        inputs = tuple(((images,), ()) for images in self.inputs)
        args: tuple[Any, ...] = (inputs,), self.has_bias, True, geometry, devices
        a = make(SharedInputFactor, args, name=f"{self.name}/input")
        tensors = tuple(
            tuple(((g,), (images,)) for g, images in zip(towers, self.inputs, strict=True))
            for towers in gradients
        )
        args = tensors, True, geometry, 1, devices
        return a, make(SharedGradientFactor, args, name=f"{self.name}/output")
