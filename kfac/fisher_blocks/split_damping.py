"""The damping λ of a Kronecker block, split between its two factors.

Called by the blocks of dense layers and convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.3.
"""

import typing

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import Damping
from kfac.linalg.kronecker import kronecker_damping
from kfac.linalg.tensor_ops import as_scalar


@typing.final
class SplitDamping:
    """π√λ'·I for A and √λ'/π·I for G, computed from the current traces at each read.

    λ' = λ/T^p is the damping of each of the T applications of the layer to an example, with
    p = `CurvatureConfig.damping_power`. Without `CurvatureConfig.balance_damping` π is 1.

    Attributes:
      of_input: The damping of A.
      of_output: The damping of G.
    """

    def __init__(
        self,
        layer: str,
        factors: tuple[FisherFactor, FisherFactor],
        damping: Scalar,
        times: Scalar,
        config: CurvatureConfig,
    ) -> None:
        """Computes nothing yet.

        Args:
          layer: Name of the layer.
          factors: A and G.
          damping: λ > 0.
          times: T.
          config: Settings with p, and with the choice to balance.
        """
        self._factors = factors
        self._damping = damping
        self._times = times
        self._config = config
        self._names = f"{layer}/input", f"{layer}/output"
        self.of_input, self.of_output = (Damping(name, self._compute) for name in self._names)

    def _compute(self) -> dict[str, Tensor]:
        return dict(zip(self._names, self._split(), strict=True))

    def _split(self) -> tuple[Tensor, Tensor]:
        """Returns π√λ' and √λ'/π, shape [] each, in the dtypes of A and G."""
        a, g = self._factors
        damping = self.of_one_use()
        if self._config.balance_damping:
            traces = a.trace(), a.dimension, tf.cast(g.trace(), a.dtype), g.dimension
            for_a, for_g = kronecker_damping(*traces, damping)
        else:
            for_a = for_g = tf.sqrt(damping)
        return for_a, tf.cast(for_g, g.dtype)

    def of_one_use(self) -> Tensor:
        """Returns λ', shape [], in the dtype of A."""
        dtype = self._factors[0].dtype
        times = as_scalar(self._times, dtype)
        return as_scalar(self._damping, dtype) / times**self._config.damping_power

    def identity_eigenvalue(self) -> Tensor:
        """Returns T(1 + √λ')², shape []: the damping of two identity matrices is split evenly."""
        damping = self.of_one_use()
        return as_scalar(self._times, damping.dtype) * (1 + tf.sqrt(damping)) ** 2
