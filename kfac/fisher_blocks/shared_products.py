"""Products with a block, or with damped identity matrices before its inverse is known, in one op.

Each is a shared function for all sizes: a graph has one operation for a block, and not thirty.
Called by the blocks of the same form.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.fisher_blocks.kronecker_product import KroneckerOperator
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.diagonal_power import damped_diagonal_power
from kfac.linalg.kronecker import layer_params_to_mat2d, mat2d_to_layer_params
from kfac.linalg.linear_operator import DenseOperator
from kfac.linalg.shared_functions import SharedFunction
from kfac.linalg.shared_numbers import as_argument


class _Signature(NamedTuple):
    """Types of the arguments of a shared function: two matrices, parts of a vector, two scalars.

    `matrices` and `parts` have the dtype and rank of each; `scalars` the number or None, or the
    name of the dtype of a Tensor []. A dtype itself equals a number.
    """

    matrices: tuple[tuple[DType, int], ...]
    parts: tuple[tuple[DType, int], ...]
    scalars: tuple[Any, ...]

    def trace(self, compute: Any, name: str) -> SharedFunction:
        """Returns a function of matrices, parts and scalars; the numbers are inside."""
        count = len(self.parts)

        def with_numbers(first: Tensor, second: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
            given = iter(others[count:])
            scalars = [next(given) if isinstance(s, str) else s for s in self.scalars]
            return tuple(compute((first, second), others[:count], scalars))

        tensors = [
            tf.TensorSpec([None] * rank, dtype) for dtype, rank in (*self.matrices, *self.parts)
        ]
        numbers = [tf.TensorSpec([], s) for s in self.scalars if isinstance(s, str)]
        return SharedFunction(with_numbers, [*tensors, *numbers], name)


class _Arguments(NamedTuple):
    """The arguments of a shared function, as in `_Signature`."""

    matrices: tuple[Tensor, Tensor]
    parts: Sequence[Tensor]
    scalars: tuple[Any, Any]

    def signature(self) -> _Signature:
        matrices, parts = (
            tuple((x.dtype, x.shape.rank) for x in tensors)
            for tensors in (self.matrices, self.parts)
        )
        scalars = tuple(s.dtype.name if tf.is_tensor(s) else s for s in self.scalars)
        return _Signature(matrices, parts, scalars)

    def call(self, function: SharedFunction) -> list[Tensor]:
        """Returns the results, which have the shapes of the parts."""
        tensors = [s for s in self.scalars if tf.is_tensor(s)]
        found = function(*self.matrices, *self.parts, *tensors)
        for product, part in zip(found, self.parts, strict=True):
            product.set_shape(part.shape)
        return found


def kronecker_or_identity(
    inverses: tuple[Tensor, Tensor],
    parts: Sequence[Tensor],
    scale: Scalar,
    eigenvalue: Scalar,
    transpose: bool,
) -> list[Tensor]:
    """Returns c·L V Rᵀ, or e·V as long as L or R has only zeros in its first column.

    Only the one that is wanted is computed. Not to be called in functions. Layers of all sizes
    share a function, so their numbers are arguments.

    Args:
      inverses: L and R.
      parts: V as a weight, or as a weight and a bias, with known ranks.
      scale: c, a number or a Tensor [].
      eigenvalue: e, likewise.
      transpose: True for c·Lᵀ V R.
    """
    left, right = inverses
    is_one = isinstance(scale, (int, float)) and scale == 1
    scalars = (
        1 if is_one else as_argument(scale, right.dtype, left.device),
        as_argument(eigenvalue, parts[0].dtype, left.device),
    )
    arguments = _Arguments(inverses, parts, scalars)
    return arguments.call(_kronecker(arguments.signature(), transpose))


@functools.cache
def _kronecker(signature: _Signature, transpose: bool) -> SharedFunction:
    def compute(
        inverses: tuple[Tensor, Tensor], parts: Sequence[Tensor], scalars: Sequence[Scalar]
    ) -> Sequence[Tensor]:
        (left, right), (scale, eigenvalue) = inverses, scalars
        operators = DenseOperator(left), DenseOperator(right)
        operator = KroneckerOperator(*operators, scale, (left.dtype, right.dtype), transpose)
        params = tuple(parts) if len(parts) > 1 else parts[0]

        def product() -> list[Tensor]:
            matrix = operator.multiply(layer_params_to_mat2d(params))
            return tf.nest.flatten(mat2d_to_layer_params(params, matrix))

        has_inverse = tf.logical_and(*map(tensor_ops.has_first_column, inverses))
        return tf.cond(has_inverse, product, lambda: vectors.scale(eigenvalue, parts))

    return signature.trace(compute, "kronecker_or_identity")


def diagonal_product(
    average: tuple[Tensor, Tensor],
    parts: Sequence[Tensor],
    damping: Scalar,
    eigenvalue: Scalar | None,
    degree: float,
    dtype: DType,
) -> list[Tensor]:
    """Returns (S/w + d)^p ∘ v, or e·v as long as w is zero.

    Args:
      average: S [n], and w [].
      parts: v, n entries together.
      damping: d, a number or a Tensor [].
      eigenvalue: e, likewise. None means 0.
      degree: p.
      dtype: Dtype of the products before they get that of v.
    """
    arguments = _Arguments(average, parts, (damping, eigenvalue))
    return arguments.call(_diagonal(arguments.signature(), degree, dtype))


@functools.cache
def _diagonal(signature: _Signature, degree: float, dtype: DType) -> SharedFunction:
    def compute(
        average: tuple[Tensor, Tensor], parts: Sequence[Tensor], scalars: Sequence[Scalar]
    ) -> Sequence[Tensor]:
        (total, weight), (damping, eigenvalue) = average, scalars
        value = total / weight
        known = tensor_ops.as_scalar(damping, value.dtype)
        power = damped_diagonal_power(value, known, degree, dtype)
        ends = [power] if len(parts) == 1 else tf.split(power, tf.stack([*map(tf.size, parts)]))
        products = [
            tf.cast(tf.reshape(diagonal, tf.shape(part)) * tf.cast(part, dtype), part.dtype)
            for diagonal, part in zip(ends, parts, strict=True)
        ]
        if eigenvalue is None:  # The power is zero as long as w is.
            return products
        pairs = zip(products, vectors.scale(eigenvalue, parts), strict=True)
        return [tensor_ops.choose(weight > 0, *pair) for pair in pairs]

    return signature.trace(compute, "diagonal_product")
