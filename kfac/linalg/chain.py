"""The matrices of one factor in the chain approximations of repeated dense layers.

The uses of a layer, such as the steps of a recurrent network, are taken to form a linear Gaussian
chain. C₀ is the second moment of one use, and C₁ that of a use with the one before it. With
R = (C₀ + d·I)^(−½), Ψ = R C₁ R is the correlation of neighbouring uses. Called by the slots of the
multi-use factor, and by the series block.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §4.
"""

import dataclasses
import typing

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.damped_functions import DampedFunction, UndampedMatrix
from kfac.linalg.damped_matrix import DampedMatrix
from kfac.linalg.eigendecomposition import damped_power, eigendecompose
from kfac.linalg.tensor_ops import all_finite, identity_like, kronecker_product, symmetrize

_NEAR_ONE = 1e-6
_NEAR_ZERO = 1e-6


@typing.final
@dataclasses.dataclass(frozen=True)
class Chain(DampedFunction):
    """The matrices that `symmetric_chain` or `limiting_chain` returns.

    Option 1 takes the correlation of neighbours to be symmetric, option 2 the chain to be long.
    """

    option: int

    @property
    def name(self) -> str:
        """Returns "chain_1" or "chain_2"."""
        return f"chain_{self.option}"

    def shape(self, size: int) -> tuple[int, int]:
        """Returns (n + 1, n) or (2n + 1, n) for n rows."""
        return self.option * size + 1, size

    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns the matrices of C₀ and C₁."""
        chain = symmetric_chain if self.option == 1 else limiting_chain
        return chain(undamped.matrix, damping, previous)


def symmetric_chain(moments: Tensor, damping: Tensor, previous: Tensor) -> DampedMatrix:
    """Option 1: C₁ is taken to be symmetric; Ψ = U diag(ψ) Uᵀ.

    `moments` are C₀ and C₁, [2, n, n]; the damping is d > 0, shape []. Returns L = R U, and below
    it |ψ|: [n + 1, n]; or `previous` if something is not finite.
    """
    first, cross, root, rare_paths = _moments_and_root(moments, damping)
    usable = all_finite(cross)
    cross = tf.where(usable, symmetrize(cross), tf.zeros_like(first))
    values, vectors = tf.linalg.eigh(symmetrize(root @ cross @ root))
    found = tf.concat([root @ vectors, tf.abs(values)[tf.newaxis]], axis=0)
    return _checked(found, usable, previous, rare_paths)


def limiting_chain(moments: Tensor, damping: Tensor, previous: Tensor) -> DampedMatrix:
    """Option 2: the chain is taken to be long; Ψ = F diag(σ) Eᵀ.

    `moments` are C₀ and C₁, [2, n, n]; the damping is d > 0, shape []. Returns P = (R C₁)ᵀ R, below
    it K = R E, and below it μ = min(σ², 1): [2n + 1, n]; or `previous` if something is not finite.
    """
    first, cross, root, rare_paths = _moments_and_root(moments, damping)
    usable = all_finite(cross)
    cross = tf.where(usable, cross, tf.zeros_like(first))
    whitened = root @ cross
    sigma, _, right = tf.linalg.svd(whitened @ root)
    step = tf.matmul(whitened, root, transpose_a=True)
    shares = tf.minimum(sigma**2, 1)[tf.newaxis]
    found = tf.concat([step, root @ right, shares], axis=0)
    return _checked(found, usable, previous, rare_paths)


def symmetric_chain_block(a: Tensor, g: Tensor, uses: int) -> Tensor:
    """Returns the block of option 1, undamped, [n · m, n · m].

    T·A₀⊗G₀ + Σ_k 2 (T − k) A_k⊗G_k over k = 1, …, T − 1, where A_k = C₀^½ |Ψ|^k C₀^½. `a` are C₀
    and C₁ of the inputs, [2, n, n], and `g` those of the outputs' gradients, [2, m, m].
    """
    bases, psis = [], []
    for root, psi in (_whitened(a), _whitened(g)):
        values, vectors = tf.linalg.eigh(symmetrize(psi))
        bases.append(root @ vectors)
        psis.append(tf.abs(values))
    product = tf.reshape(psis[0][:, tf.newaxis] * psis[1], [-1])
    basis = kronecker_product(*bases)
    gain = tf.cast(symmetric_chain_gain(product, uses), basis.dtype)
    return tf.matmul(basis / gain, basis, transpose_b=True)


def limiting_chain_block(a: Tensor, g: Tensor, uses: int) -> Tensor:
    """Returns the block of option 2, undamped, [n · m, n · m].

    T Σ_k C₀^½ Ψ^k C₀^½ over all k, with C₀ and Ψ the Kronecker products of those of A and G, and
    Ψ^(−k) meaning the transpose of Ψ^k. The sum is (I − Ψᵀ)⁻¹ (I − ΨᵀΨ) (I − Ψ)⁻¹. `a` are C₀ and
    C₁ of the inputs, [2, n, n], and `g` those of the outputs' gradients, [2, m, m].
    """
    (root_a, psi_a), (root_g, psi_g) = _whitened(a), _whitened(g)
    root, psi = kronecker_product(root_a, root_g), kronecker_product(psi_a, psi_g)
    sigma, _, right = tf.linalg.svd(psi)
    rest = 1 - tf.minimum(sigma**2, 1)
    rest = tf.where(tf.equal(rest, 0), tf.ones_like(rest), rest)
    half = tf.linalg.pinv(identity_like(psi) - psi) @ root
    half = tf.sqrt(rest)[:, tf.newaxis] * tf.matmul(right, half, transpose_a=True)
    return uses * tf.matmul(half, half, transpose_a=True)


def _whitened(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Returns C₀^½ and Ψ without damping, by the pseudo-inverse where C₀ is singular."""
    values, vectors, _ = eigendecompose(moments[0])
    is_zero = values <= _NEAR_ZERO**2 * tf.reduce_max(values)
    roots = tf.sqrt(values)
    inverses = tf.where(
        is_zero, tf.zeros_like(roots), 1 / tf.where(is_zero, tf.ones_like(roots), roots)
    )
    inverse = tf.matmul(vectors * inverses, vectors, transpose_b=True)
    return tf.matmul(vectors * roots, vectors, transpose_b=True), inverse @ moments[1] @ inverse


def symmetric_chain_gain(x: Tensor, uses: int) -> Tensor:
    """Returns γ(x) = (1 − x)² / (T(1 − x²) − 2x(1 − x^T)), entry by entry, for T uses.

    Its inverse is the polynomial T + 2 Σ_k (T − k) x^k over k = 1, …, T − 1, so it is smooth at x =
    1, where the formula is not; near that the first two terms of the series are used.
    """
    x = tf.cast(x, tf.float64)
    distance = 1 - x
    is_near = tf.abs(distance) < _NEAR_ONE
    far = tf.where(is_near, tf.zeros_like(x), x)
    closed = (1 - far) ** 2 / (uses * (1 - far**2) - 2 * far * (1 - far**uses))
    near = 1 / (uses**2 - distance * (uses**3 - uses) / 3)
    return tf.where(is_near, near, closed)


def _moments_and_root(moments: Tensor, damping: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns C₀, C₁, R and the path by which R was found."""
    first, cross = moments[0], moments[1]
    root, rare_paths = damped_power(eigendecompose(first), damping, -0.5, tf.zeros_like(first))
    return first, cross, root, rare_paths


def _checked(found: Tensor, usable: Tensor, previous: Tensor, rare_paths: Tensor) -> DampedMatrix:
    kept = rare_paths[-1] > 0
    good = tf.reduce_all([usable, all_finite(found), tf.logical_not(kept)])
    lost = tf.cast(tf.logical_not(good), tf.int64)
    return DampedMatrix(
        tf.where(good, found, previous), tf.concat([rare_paths[:-1], [lost]], axis=0)
    )
