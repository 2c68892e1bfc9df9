"""The factor of dense layers that are applied several times, with the correlation of neighbours.

Called by the series block; blocks that take uses to be independent need only the ordinary factors.
The algebra is in `kfac.linalg.chain`.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §4.
"""

import typing
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import Moment, Sources
from kfac.fisher_factors.dense import VectorFactor
from kfac.fisher_factors.matrix import NoCholeskyFactor
from kfac.fisher_factors.slot import Damping, Request
from kfac.fisher_factors.uses import fold_uses
from kfac.linalg import tensor_ops
from kfac.linalg.linear_operator import DenseOperator, LinearOperator
from kfac.state import Change


class SymmetricChain(typing.NamedTuple):
    """What option 1 keeps of a factor: L = R U [n, n] and ψ [n]."""

    basis: Tensor
    psi: Tensor


class LimitingChain(typing.NamedTuple):
    """What option 2 keeps of a factor: P [n, n], K [n, n] and μ [n]."""

    step: Tensor
    basis: Tensor
    mu: Tensor


@typing.final
class FullyConnectedMultiKF(VectorFactor, NoCholeskyFactor):
    """C₀ = XᵀX / rows, and C₁ = X[N:]ᵀ X[:−N] / rows, of X [uses · N, n], use after use."""

    _limitation = "with approx='kron_series_1' or 'kron_series_2' only products with the inverse"
    _remedy = "approx='kron_indep'"

    def __init__(
        self,
        tensors: Sources,
        num_uses: int,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: X by [source][tower], as `kfac.fisher_factors.uses.as_uses` returns it.
          num_uses: How often the layer is applied.
          has_bias: Whether X gets a column of ones.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, has_bias, devices, name, config)
        self._num_uses = num_uses

    @property
    def dimension(self) -> int:
        """n, plus 1 with a bias."""
        return self._vector_size() + int(self._has_bias)

    @property
    def _slot_size(self) -> int:
        return self.dimension

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(2, dimension, dimension): C₀ and C₁."""
        return 2, self.dimension, self.dimension

    def _slot_shape(self, request: Request) -> list[int]:
        rows = {"chain_1": self.dimension + 1, "chain_2": 2 * self.dimension + 1}
        return [rows[request.kind], self.dimension]

    def _tower_moment(self, tensors: Any) -> Moment:
        x = self._with_ones(tf.cast(fold_uses(tensors, 1), self.dtype))
        rows = tf.shape(x)[0]
        examples = rows // self._num_uses
        cross = tf.matmul(x[examples:], x[: rows - examples], transpose_a=True)
        return Moment(tf.stack([tensor_ops.outer_product(x), cross]), rows)

    def trace(self) -> Tensor:
        """Returns the trace of C₀, read now; shape []."""
        return tf.linalg.trace(self.value[0])

    @property
    def cov(self) -> Tensor:
        """C₀ [dimension, dimension], read now."""
        return self.value[0]

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns C₀, read now."""
        return DenseOperator(self.cov)

    def register_chain(self, option: int, damping: Damping) -> None:
        """Asks for what option 1 or 2 needs to be kept."""
        self._register(Request(damping.name, f"chain_{option}"), damping)

    def get_symmetric_chain(self, damping: Damping) -> SymmetricChain:
        """Returns what option 1 needs, as of its last update."""
        kept = self._read_slot(Request(damping.name, "chain_1"))
        return SymmetricChain(kept[:-1], kept[-1])

    def get_limiting_chain(self, damping: Damping) -> LimitingChain:
        """Returns what option 2 needs, as of its last update."""
        kept, n = self._read_slot(Request(damping.name, "chain_2")), self.dimension
        return LimitingChain(kept[:n], kept[n:-1], kept[-1])

    def register_matpower(self, exponent: float, damping: Damping) -> None:
        """Raises ValueError: not known."""
        raise self._unsupported(f"power {exponent:g}")

    def get_matpower(self, exponent: float, damping: Damping) -> LinearOperator:
        """Raises ValueError: not known."""
        raise self._unsupported(f"power {exponent:g}")

    def updated_inverses(self, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all that is registered; returns the changes of `get_inv_vars()`.

        Args:
          dampings: By name; `dampings` among them.
        """
        return self._updated_slots(self.value, dampings)
