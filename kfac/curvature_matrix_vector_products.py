"""Exact products of vectors with curvature matrices of the whole network, without making these.

Let J be the network's Jacobian, of the inputs of all losses with respect to the tensors of
interest. Each loss has a coefficient c and the Fisher matrix F = B Bᵀ with respect to its inputs:

  Fisher matrix  Jᵀ c F J,   its factor  Jᵀ √c B,   transposed  √c Bᵀ J;

The generalized Gauss-Newton matrix (GGN) has the Hessian of the loss in place of F. All products
are sums over examples, towers and losses: not divided by the batch size, and not damped. Jᵀu is a
reverse pass. It is linear in u, and J v is its derivative with respect to u, so a second reverse
pass. Nothing is approximated by blocks. Used by programs that need exact curvature along some
directions, for example to choose a step size.

References:
  Schraudolph (2002), "Fast curvature matrix-vector products for second-order gradient descent".
  Martens & Grosse (2015), arXiv:1503.05671, §6.4 and appendix C.
"""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.tensor_ops import as_scalar
from kfac.loss_functions.base import LossFunction
from kfac.registration.loss_table import RegisteredLosses
from kfac.variables import check_not_partitioned

v1 = tf.compat.v1


@typing.final
class CurvatureMatrixVectorProductComputer:
    """Multiplies by the Fisher matrix, the GGN and their factors, and by the Hessian.

    Vectors on the side of the network are lists with one Tensor per tensor of interest, of its
    shape. Inner vectors are lists with one Tensor per loss in `losses` of the layer collection
    (tower after tower within each name), of the shapes in `fisher_factor_inner_shapes`.
    """

    def __init__(
        self,
        layer_collection: RegisteredLosses,
        wrt_tensors: Sequence[Tensor],
        colocate_gradients_with_ops: bool = True,
    ) -> None:
        """Builds nothing yet.

        Args:
          layer_collection: Layer collection with the losses.
          wrt_tensors: Variables or other tensors to differentiate with respect to. They are assumed
            to be independent, even if one is computed from another.
          colocate_gradients_with_ops: True to compute derivatives on the devices of the forward
            pass.

        Raises:
          TypeError: A variable is partitioned.
        """
        self._collection = layer_collection
        check_not_partitioned("compute products", wrt_tensors)
        self._wrt = list(wrt_tensors)
        self._colocate = colocate_gradients_with_ops

    @property
    def _losses(self) -> tuple[LossFunction, ...]:
        return self._collection.loss_table.losses

    @property
    def fisher_factor_inner_shapes(self) -> tuple[Tensor, ...]:
        """Shape of the inner vector of each loss, int [rank]."""
        return tuple(loss.fisher_factor_inner_shape for loss in self._losses)

    @property
    def fisher_factor_inner_static_shapes(self) -> tuple[Any, ...]:
        """Shape of the inner vector of each loss, a TensorShape as far as it is static."""
        return tuple(loss.fisher_factor_inner_static_shape for loss in self._losses)

    @property
    def ggn_factor_inner_shapes(self) -> tuple[Tensor, ...]:
        """Shape of the inner vector of each loss, int [rank]."""
        return tuple(loss.ggn_factor_inner_shape for loss in self._losses)

    @property
    def ggn_factor_inner_static_shapes(self) -> tuple[Any, ...]:
        """Shape of the inner vector of each loss, a TensorShape as far as it is static."""
        return tuple(loss.ggn_factor_inner_static_shape for loss in self._losses)

    # Products. Those with the GGN raise NotImplementedError if a loss has no GGN.

    def multiply_fisher(self, vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns Jᵀ c F J v."""
        return self._multiply(vecs, LossFunction.multiply_fisher)

    def multiply_ggn(self, vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns Jᵀ c H J v, H being the Hessian of each loss with respect to its inputs."""
        return self._multiply(vecs, LossFunction.multiply_ggn)

    def multiply_fisher_factor(self, loss_inner_vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns Jᵀ √c B z for inner vectors z."""
        return self._multiply_factor(loss_inner_vecs, LossFunction.multiply_fisher_factor)

    def multiply_ggn_factor(self, loss_inner_vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns Jᵀ √c B z for inner vectors z, with B Bᵀ = H."""
        return self._multiply_factor(loss_inner_vecs, LossFunction.multiply_ggn_factor)

    def multiply_fisher_factor_transpose(self, vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns inner vectors √c Bᵀ J v."""
        product = LossFunction.multiply_fisher_factor_transpose
        return self._map_losses(product, self._multiply_jacobian(vecs), power=0.5)

    def multiply_ggn_factor_transpose(self, vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns inner vectors √c Bᵀ J v, with B Bᵀ = H."""
        product = LossFunction.multiply_ggn_factor_transpose
        return self._map_losses(product, self._multiply_jacobian(vecs), power=0.5)

    def multiply_hessian(self, vecs: Sequence[Tensor]) -> list[Tensor]:
        """Returns the Hessian of the total loss times v; needs targets.

        Raises:
          ValueError: A loss has no targets.
        """
        total = self._collection.loss_table.total_loss()
        gradients = self._gradients([total], self._wrt, None)
        return self._gradients(gradients, self._wrt, list(vecs))

    def _multiply(
        self, vecs: Sequence[Tensor], product: Callable[[LossFunction, Any], Any]
    ) -> list[Tensor]:
        outputs = self._map_losses(product, self._multiply_jacobian(vecs), power=1)
        return self._multiply_jacobian_transpose(outputs)

    def _multiply_factor(
        self, inner_vecs: Sequence[Tensor], product: Callable[[LossFunction, Any], Any]
    ) -> list[Tensor]:
        return self._multiply_jacobian_transpose(self._map_losses(product, inner_vecs, power=0.5))

    # Inputs and vectors of the losses, by [loss]; each may be a pair.

    def _map_losses(
        self, product: Callable[[LossFunction, Any], Any], vectors: Sequence[Any], power: float
    ) -> list[Any]:
        """Applies a loss's product to its vector, and multiplies by a power of its coefficient."""
        coefficients = self._collection.loss_table.coefficients
        results = []
        for loss, vector in zip(self._losses, vectors, strict=True):
            scale = functools.partial(_multiply_scalar, coefficients[loss] ** power)
            with v1.device(loss.device):
                results.append(tf.nest.map_structure(scale, product(loss, vector)))
        return results

    def _multiply_jacobian(self, vecs: Sequence[Tensor]) -> list[Any]:
        """Returns J v, by loss."""
        inputs = [loss.inputs for loss in self._losses]
        # The value at which a linear map is differentiated does not matter.
        point = [tf.zeros_like(tensor) for tensor in tf.nest.flatten(inputs)]
        transposed = self._gradients(tf.nest.flatten(inputs), self._wrt, point)
        product = self._gradients(transposed, point, list(vecs), stop_at_wrt=False)
        return list(tf.nest.pack_sequence_as(inputs, product))

    def _multiply_jacobian_transpose(self, vectors: Sequence[Any]) -> list[Tensor]:
        """Returns Jᵀ u, for u given by loss."""
        inputs = [loss.inputs for loss in self._losses]
        return self._gradients(tf.nest.flatten(inputs), self._wrt, tf.nest.flatten(list(vectors)))

    def _gradients(
        self,
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        grad_ys: Sequence[Tensor] | None,
        stop_at_wrt: bool = True,
    ) -> list[Tensor]:
        """Returns dense derivatives, zero where there is no dependence."""
        gradients = v1.gradients(
            list(ys),
            list(xs),
            grad_ys=None if grad_ys is None else list(grad_ys),
            stop_gradients=self._wrt if stop_at_wrt else None,
            colocate_gradients_with_ops=self._colocate,
        )
        return [
            tf.zeros_like(x) if gradient is None else tf.convert_to_tensor(gradient)
            for x, gradient in zip(xs, gradients, strict=True)
        ]


def _multiply_scalar(scalar: float, tensor: Tensor) -> Tensor:
    return as_scalar(scalar, tensor.dtype) * tensor
