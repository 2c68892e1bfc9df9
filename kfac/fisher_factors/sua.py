"""The input factor of convolutions under the assumption of spatially uncorrelated activations.

Activations of different pixels are assumed to be uncorrelated, and all pixels to be alike. Then the
matrix of K·c entries follows from the covariance Σ [c, c] and the mean μ [c] of the channels:

    A = I_K ⊗ Σ + m mᵀ,    m = [μ, …, μ (K times), 1 if there is a bias],

where the first term has 0 at the entry of the bias. With zero-mean activations μ is set to zero,
and Σ is the second moment. Only the powers 1 and −1 of the damped matrix are available; the latter
by the Sherman–Morrison formula. Called by the convolution block.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §4.2.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import Known, Moment, Sources
from kfac.fisher_factors.conv import as_images
from kfac.fisher_factors.kept import Damping
from kfac.fisher_factors.matrix import KeepingFactor, unsupported_error
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE, ITSELF, DampedFunction, MatrixFunction
from kfac.linalg.linear_operator import LinearOperator
from kfac.patches.extraction import ConvGeometry


@typing.final
class RepeatedOperator(LinearOperator):
    """(I_K ⊗ S ⊕ s) + σ m mᵀ: a repeated symmetric matrix, a last entry, a rank-one term.

    These are the block S [c, c], s and σ, shape [], and the vector m [K·c, plus 1 with a last
    entry]. There may be no last entry s.
    """

    def __init__(
        self, block: Tensor, repetitions: int, last: Tensor | None, vector: Tensor, sigma: Tensor
    ) -> None:
        self._block = block
        self._repetitions = repetitions
        self._last = last
        self._vector = vector[:, tf.newaxis]
        self._sigma = sigma

    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X of X [n, m]; Mᵀ is M."""
        del transpose
        inner = tf.matmul(self._vector, matrix, transpose_a=True)
        return self._repeated(matrix) + self._sigma * self._vector * inner

    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M of X [m, n]; Mᵀ is M."""
        return tf.transpose(self.left(tf.transpose(matrix), transpose))

    def _repeated(self, matrix: Tensor) -> Tensor:
        channels = self._block.shape.as_list()[0]
        size, columns = self._repetitions * channels, tf.shape(matrix)[1]
        parts = tf.reshape(matrix[:size], [self._repetitions, channels, columns])
        product = tf.reshape(tf.einsum("ij,kjm->kim", self._block, parts), [size, columns])
        if self._last is None:
            return product
        return tf.concat([product, self._last * matrix[size:]], axis=0)

    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""
        return self.left(tf.eye(self._vector.shape.as_list()[0], dtype=self._block.dtype))


@typing.final
class ConvInputSUAKroneckerFactor(KeepingFactor):
    """Covariance and mean of the channels, in place of the second moment of patches.

    The arguments are those of `FisherFactor`, and:

      tensors: Images [N, ..., channels].
      geometry: The filter.
      has_bias: True if each patch has a trailing 1.
    """

    def __init__(
        self,
        tensors: Sources,
        geometry: ConvGeometry,
        has_bias: bool,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._geometry = geometry
        self._has_bias = has_bias

    @property
    def _entries(self) -> int:
        """K."""
        return self._geometry.entries

    @property
    def _channels(self) -> int:
        """Number of channels c."""
        return self._static_size(*self._geometry.image_axes)

    @property
    def dimension(self) -> int:
        """K·c, plus 1 with a bias."""
        return self._entries * self._channels + int(self._has_bias)

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """The shape (c + 1, c) of Σ and below it μ."""
        return self._channels + 1, self._channels

    @property
    def inverse_cost(self) -> float:
        """c³ for each kept inverse."""
        return float(self._channels) ** 3 * len(self.inverses)

    @property
    def inverse_shapes(self) -> tuple[tuple[int, ...], ...]:
        """(c, c) for each inverse."""
        return tuple(slot.function.shape(self._channels) for slot in self.inverses)

    def _unsupported(self, function: DampedFunction) -> ValueError:
        known = "with approx='kron_sua' only the powers 1 and -1"
        return unsupported_error(function, f"factor {self.name!r}", known, "approx='kron'")

    def _tower_moment(self, tensors: Any) -> Moment:
        images = as_images(tensors, self._geometry, self.dtype)
        rows = tf.reshape(images, [-1, self._channels])
        total = [tensor_ops.outer_product(rows), tf.reduce_sum(rows, axis=0, keepdims=True)]
        return Moment(tf.concat(total, axis=0), tf.shape(rows)[0])

    def statistic(self, moment: Moment) -> Tensor:
        """Returns Σ and below it μ, [c + 1, c]."""
        mean = super().statistic(moment)
        second, first = mean[:-1], mean[-1:]
        if self._config.zero_mean_activations:
            return tf.concat([second, tf.zeros_like(first)], axis=0)
        return tf.concat([second - first * tf.transpose(first), first], axis=0)

    def trace(self) -> Tensor:
        """Returns K (tr Σ + ‖μ‖²), plus 1 with a bias, read now; shape []."""
        covariance, mean = self._parts()
        diagonal = tensor_ops.diagonal(covariance)
        once = tf.reduce_sum(diagonal, axis=-1) + tf.reduce_sum(mean**2)
        return self._entries * once + int(self._has_bias)

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Returns Σ [c, c] and μ [c]."""
        value = self.value
        return value[:-1], value[-1]

    @property
    def cov(self) -> Tensor:
        """A [dimension, dimension], read now."""
        return self.get_cov_as_linear_operator().to_dense()

    def get_cov_vars(self) -> list[Tensor]:
        """Returns Σ [c, c] and μ [c], read now; NaN before the first update."""
        return list(self._parts())

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return self._plus(tf.zeros([], self.dtype))

    def _plus(self, damping: Tensor) -> LinearOperator:
        """Returns A + d·I."""
        covariance, mean = self._parts()
        block = tensor_ops.add_to_diagonal(covariance, damping)
        return self._operator(block, damping, self._vector(mean), tf.ones_like(damping))

    def _vector(self, mean: Tensor) -> Tensor:
        repeated = tf.tile(mean, [self._entries])
        return tensor_ops.append_homogeneous(repeated) if self._has_bias else repeated

    def _operator(
        self, block: Tensor, last: Tensor, vector: Tensor, sigma: Tensor
    ) -> RepeatedOperator:
        return RepeatedOperator(
            block, self._entries, last if self._has_bias else None, vector, sigma
        )

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers (A + d·I)⁻¹, kept in terms of (Σ + d·I)⁻¹; A + d·I needs no variable."""
        self._check(function)
        if function == INVERSE:
            self.keep(function, damping)

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns A + d·I computed now, or its inverse as of the last update.

        Before the first update the inverse is zero. By Sherman and Morrison it is B⁻¹ − B⁻¹m mᵀB⁻¹
        / (1 + mᵀB⁻¹m), where B is the matrix without its rank-one term.
        """
        self._check(function)
        d = tf.cast(damping.value(), self.dtype)
        if function == ITSELF:
            return self._plus(d)
        inverse = tf.cast(self.read_kept(function, damping), self.dtype)
        _, mean = self._parts()
        is_ready = tf.logical_and(
            tf.reduce_any(tf.not_equal(inverse, 0)), tensor_ops.all_finite(mean)
        )
        last = tf.where(is_ready, 1 / d, tf.zeros_like(d))
        vector = self._vector(tf.where(is_ready, mean, tf.zeros_like(mean)))
        alone = self._operator(inverse, last, vector, tf.zeros_like(d))
        solved = alone.left(vector[:, tf.newaxis])[:, 0]
        sigma = -1 / (1 + tf.reduce_sum(vector * solved))
        return self._operator(inverse, last, solved, sigma)

    def _check(self, function: DampedFunction) -> None:
        if function not in {ITSELF, INVERSE}:
            raise self._unsupported(function)

    def _matrix_of(self, averages: Known) -> Tensor:
        """Returns Σ."""
        return self.value_of(averages)[:-1]
