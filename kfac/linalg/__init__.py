"""Linear algebra of K-FAC: damped inverses, Kronecker products, parameter-space vectors.

The functions on Tensors are public under this name.
"""

from kfac.linalg.tensor_ops import (
    FEWEST_ROWS,
    LARGEST_PRODUCT,
    add_in_order,
    add_to_diagonal,
    all_finite,
    append_homogeneous,
    as_scalar,
    choose,
    diagonal,
    identity_like,
    outer_product,
    static_size,
    statistics_dtype,
    symmetrize,
    with_shape,
)

__all__ = [
    "FEWEST_ROWS",
    "LARGEST_PRODUCT",
    "add_in_order",
    "add_to_diagonal",
    "all_finite",
    "append_homogeneous",
    "as_scalar",
    "choose",
    "diagonal",
    "identity_like",
    "outer_product",
    "static_size",
    "statistics_dtype",
    "symmetrize",
    "with_shape",
]
