"""The diagonal of a layer's Fisher block in the eigenbases of its Kronecker factors (EKFAC).

A⊗G has the eigenvectors U_A⊗U_G. Unless A⊗G is exact, its eigenvalues e_A e_Gᵀ are not the best
ones for these eigenvectors. The best ones are the second moments of the entries of each example's
gradient in the basis of the eigenvectors,

    s = E[(U_Aᵀ (Σ a gᵀ) U_G)²],    summed over the T applications of the layer.

These factors keep the moving average of s, and both bases. Called by the eigenbasis blocks, which
make A and G.

e_A and e_G come from `kfac.linalg.eigendecomposition`, which sets negative ones to zero.

When the bases change, the average S is moved to them so that the block stays the same:
S becomes the block's diagonal in the new bases, P_A S P_Gᵀ with P = (Uᵀ U_old)², entry by entry.
With the first bases S starts at T·e_A e_Gᵀ, the eigenvalues of T·A⊗G, with the weight of all
batches that A and G have seen. So computing bases rarely costs no accuracy.

References:
  George, Laurent, Bouthillier, Ballas & Vincent (2018), "Fast approximate natural gradient descent
  in a Kronecker-factored eigenbasis", arXiv:1806.03884, §3.
"""

import abc
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known, Moment, Sources
from kfac.fisher_factors.conv import PatchMask, as_images, example_gradients
from kfac.fisher_factors.kept import Damping, MatrixSlot, read_total, refresh_slots
from kfac.fisher_factors.matrix import DiagonalFactor
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import Eigenbasis
from kfac.patches.extraction import ConvGeometry
from kfac.state import Assignment, Change

v1 = tf.compat.v1


class Eigenbases(typing.NamedTuple):
    """The eigenvectors of A and of G, in columns; zero before they are first computed.

    Attributes:
      input: U_A [inputs, inputs].
      output: U_G [outputs, outputs].
    """

    input: Tensor
    output: Tensor


class EigenbasisFactor(DiagonalFactor):
    """s [inputs · outputs], the rows of a matrix [inputs, outputs] one after another.

    The arguments are those of `FisherFactor`, and:

      tensors: (inputs, gradients) of the layer.
      kronecker: A and G.
      times: T, an int or an int Tensor [].
      has_bias: True if inputs get a trailing 1.
    """

    def __init__(
        self,
        tensors: Sources,
        kronecker: tuple[FisherFactor, FisherFactor],
        times: Scalar,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._kronecker = kronecker
        self._times = times
        self._has_bias = has_bias
        sides = f"{name}/input", f"{name}/output"
        # The eigenvectors of M + d·I are those of M, whatever d is.
        for side in sides:
            damping = Damping(side, lambda: dict.fromkeys(sides, tf.ones([])))
            self._slots[Eigenbasis(), side] = MatrixSlot(Eigenbasis(), damping)

    @abc.abstractmethod
    def _squares(self, tensors: Any, bases: Eigenbases) -> Moment:
        """Returns the sum over a tower's examples of (U_Aᵀ (Σ a gᵀ) U_G)² [inputs, outputs]."""

    @property
    def dimension(self) -> int:
        """Inputs · outputs."""
        a, g = self._kronecker
        return a.dimension * g.dimension

    @property
    def inverse_cost(self) -> float:
        """n³ for the basis of each factor with n rows."""
        return float(sum(factor.dimension**3 for factor in self._kronecker))

    def _tower_moment(self, tensors: Any) -> Moment:
        total, count = self._squares(tensors, self.get_bases())
        return Moment(tf.reshape(total, [-1]), count)

    def get_bases(self) -> Eigenbases:
        """Returns U_A and U_G as of their last update, in the dtype of the average."""
        return Eigenbases(*(tf.cast(slot.read()[:-1], self.dtype) for slot in self.inverses))

    @property
    def inverse_shapes(self) -> tuple[tuple[int, ...], ...]:
        """(n + 1, n) for the basis of A and that of G, each with a last row of eigenvalues."""
        pairs = zip(self.inverses, self._kronecker, strict=True)
        return tuple(slot.function.shape(factor.dimension) for slot, factor in pairs)

    @property
    def inverse_dtype(self) -> DType:
        """Dtype of the variables of the bases: float32 at least.

        In fewer digits they would not be orthogonal enough for S to keep its sum.
        """
        return tensor_ops.statistics_dtype(super().inverse_dtype)

    @property
    def inverse_update_vars(self) -> tuple[Variable, ...]:
        """The variables of the bases, and the sum S."""
        return *self.inv_variables, self.cov_variables[0]

    @property
    def inverse_sources(self) -> tuple[FisherFactor, ...]:
        """A and G."""
        return self._kronecker

    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """Computes the bases; see `FisherFactor.updated_inverses`."""
        changes: list[Change] = []
        for slot, factor in zip(self.inverses, self._kronecker, strict=True):
            changes += refresh_slots.function(
                factor.value_of(averages), [slot.variables], [dampings[slot.damping.name]],
                functions=[slot.function], method="cholesky", dtype=self.inverse_dtype,
            )  # fmt: skip
        return changes

    def move_average(self, changes: Sequence[Change]) -> list[Change]:
        """Moves S to new bases, given the changes of these; see `FisherFactor.move_average`."""
        values, moves, is_first = [], [], tf.constant(False)
        for slot, change in zip(self.inverses, changes[::2], strict=True):
            old, new = (tf.cast(basis, self.dtype) for basis in (slot.read(), change.value))
            values.append(new[-1])
            moves.append(tf.matmul(new[:-1], old[:-1], transpose_a=True) ** 2)
            is_first = tf.logical_or(is_first, tf.reduce_all(tf.equal(old[:-1], 0)))
        total = self.cov_variables[0]
        matrix = tf.reshape(read_total(*self.average), [v.shape.as_list()[0] for v in values])
        moved = tf.matmul(moves[0] @ matrix, moves[1], transpose_b=True)
        times = self.read_weight() * tensor_ops.as_scalar(self._times, self.dtype)
        start = times * values[0][:, tf.newaxis] * values[1]
        flat = tf.reshape(tf.where(is_first, start, moved), self.cov_shape)
        # The old bases must have been read before new ones are assigned.
        with v1.control_dependencies([flat]):
            bases = [change._replace(value=tf.identity(change.value)) for change in changes]
        return [*bases, Assignment(total, tf.cast(flat, self.kept_dtype))]


@typing.final
class FullyConnectedEigenbasisFactor(EigenbasisFactor):
    """(Q²)ᵀ(H²)/N with Q = X U_A and H = D U_G of inputs X [N, n] and gradients D [N, m]."""

    def _squares(self, tensors: Any, bases: Eigenbases) -> Moment:
        x, g = (tf.cast(t, self.dtype) for t in tensors)
        if self._has_bias:
            x = tensor_ops.append_homogeneous(x)
        q, h = tf.matmul(x, bases.input), tf.matmul(g, bases.output)
        return Moment(tf.matmul(q**2, h**2, transpose_a=True), tf.shape(x)[0])


@typing.final
class ConvEigenbasisFactor(EigenbasisFactor):
    """Mean over examples of (U_Aᵀ (Σ_locations p gᵀ) U_G)², of patches p and gradients g.

    The arguments are those of `EigenbasisFactor`, and:

      tensors: (images, gradients).
      geometry: The filter.
      patch_mask: Multiplier of every patch; None means 1.
    """

    def __init__(
        self,
        tensors: Sources,
        kronecker: tuple[FisherFactor, FisherFactor],
        times: Scalar,
        has_bias: bool,
        devices: tuple[str, ...],
        geometry: ConvGeometry,
        patch_mask: PatchMask | None = None,
        *,
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, kronecker, times, has_bias, devices, name, config)
        self._geometry = geometry
        self._patch_mask = patch_mask

    def _squares(self, tensors: Any, bases: Eigenbases) -> Moment:
        images, gradients = (as_images(t, self._geometry, self.dtype) for t in tensors)
        args = self._geometry, self._has_bias, self._patch_mask
        by_example = example_gradients(images, gradients, *args)
        rotated = tf.einsum("nio,ij->njo", by_example, bases.input)
        rotated = tf.einsum("njo,ok->njk", rotated, bases.output)
        return Moment(tf.reduce_sum(rotated**2, axis=0), tf.shape(images)[0])
