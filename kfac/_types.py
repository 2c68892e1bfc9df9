"""Names for TensorFlow's types in signatures.

TensorFlow carries no type information, so to a type checker these are all `Any`. They tell the
reader the meaning of an argument.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
Variable: TypeAlias = Any
Operation: TypeAlias = Any
Graph: TypeAlias = Any
DType: TypeAlias = Any
Scalar: TypeAlias = Any
"""A Python number, a Tensor or Variable of shape [], or a function that returns one of these."""

Parameters: TypeAlias = Any
"""Parameters of one layer: a weight, or a (weight, bias) tuple."""

GradsAndVars: TypeAlias = Sequence[tuple[Tensor | None, Variable]]
