"""The statistics of dense layers with a chain of uses: moments of uses and of neighbouring uses.

Called by the series block. Blocks that assume independent uses need only the factors of
`kfac.fisher_factors.dense`. The algebra is in `kfac.linalg.chain`.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §4.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import Moment, Sources
from kfac.fisher_factors.kept import Damping
from kfac.fisher_factors.matrix import KeepingFactor, unsupported_error
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg import tensor_ops
from kfac.linalg.chain import Chain
from kfac.linalg.damped_functions import DampedFunction, MatrixFunction
from kfac.linalg.linear_operator import DenseOperator, LinearOperator


def unsupported_chain_error(function: DampedFunction, place: str) -> ValueError:
    """Returns the error for a function of a chain of uses other than its inverse."""
    known = "with approx='kron_series_1' or 'kron_series_2' only products with the inverse"
    return unsupported_error(function, place, known, "approx='kron_indep'")


class SymmetricChain(typing.NamedTuple):
    """The matrices of option 1: L = R U [n, n] and ψ [n]."""

    basis: Tensor
    psi: Tensor


class LimitingChain(typing.NamedTuple):
    """The matrices of option 2: P [n, n], K [n, n] and μ [n]."""

    step: Tensor
    basis: Tensor
    mu: Tensor


@typing.final
class FullyConnectedMultiKF(KeepingFactor):
    """C₀ = XᵀX / rows, and C₁ = X[N:]ᵀ X[:−N] / rows, of X [uses · N, n], use after use.

    The arguments are those of `FisherFactor`, and:

      tensors: X, as `kfac.fisher_factors.uses.as_uses` returns it.
      num_uses: Number of applications of the layer to an example.
      has_bias: True if X gets a column of ones.
    """

    def __init__(
        self,
        tensors: Sources,
        num_uses: int,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._num_uses = num_uses
        self._has_bias = has_bias

    @property
    def dimension(self) -> int:
        """n, plus 1 with a bias."""
        return self._static_size(2) + int(self._has_bias)

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """The shape (2, dimension, dimension) of C₀ and C₁."""
        return 2, self.dimension, self.dimension

    def _unsupported(self, function: DampedFunction) -> ValueError:
        return unsupported_chain_error(function, f"factor {self.name!r}")

    def _tower_moment(self, tensors: Any) -> Moment:
        x = tf.cast(fold_uses(tensors, 1), self.dtype)
        x = tensor_ops.append_homogeneous(x) if self._has_bias else x
        rows = tf.shape(x)[0]
        examples = rows // self._num_uses
        cross = tf.matmul(x[examples:], x[: rows - examples], transpose_a=True)
        return Moment(tf.stack([tensor_ops.outer_product(x), cross]), rows)

    def trace(self) -> Tensor:
        """Returns the trace of C₀, read now; shape []."""
        return tf.reduce_sum(tensor_ops.diagonal(self.value[0]), axis=-1)

    @property
    def cov(self) -> Tensor:
        """C₀ [dimension, dimension], read now."""
        return self.value[0]

    def get_cov_vars(self) -> list[Tensor]:
        """Returns C₀ and C₁ [dimension, dimension], read now; NaN before the first update."""
        return tf.unstack(self.value)

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns C₀, read now."""
        return DenseOperator(self.cov)

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers the matrices of a chain."""
        if not isinstance(function, Chain):
            raise self._unsupported(function)
        self.keep(function, damping)

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Raises ValueError: functions of a chain need the other factor too."""
        raise self._unsupported(function)

    def get_symmetric_chain(self, damping: Damping) -> SymmetricChain:
        """Returns the matrices of option 1 as of their last update."""
        kept = self.read_kept(Chain(1), damping)
        return SymmetricChain(kept[:-1], kept[-1])

    def get_limiting_chain(self, damping: Damping) -> LimitingChain:
        """Returns the matrices of option 2 as of their last update."""
        kept, n = self.read_kept(Chain(2), damping), self.dimension
        return LimitingChain(kept[:n], kept[n:-1], kept[-1])
