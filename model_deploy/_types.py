"""Names for TensorFlow's types, which carry no annotations of their own."""

from typing import Any, Literal, TypeAlias

Device: TypeAlias = str
Gradient: TypeAlias = Any
"""A Tensor or an IndexedSlices."""
Operation: TypeAlias = Any
Tensor: TypeAlias = Any
Variable: TypeAlias = Any
VariablePlacement: TypeAlias = Literal["round_robin", "by_bytes"]
