"""Kinds of operations by their types, for the search of sums over rows in `batch_growth`."""

from collections.abc import Mapping
from fractions import Fraction

HOMOGENEOUS = frozenset([
    "Abs", "Cast", "CheckNumerics", "EnsureShape", "Identity", "LeakyRelu", "Neg",
    "PreventGradient", "Relu", "Snapshot", "StopGradient",
])  # fmt: skip
"""Types of the functions with f(c·x) = c·f(x) for c > 0."""
POWERS: Mapping[str, Fraction] = {
    "Inv": Fraction(-1),
    "Reciprocal": Fraction(-1),
    "Rsqrt": Fraction(-1, 2),
    "Sqrt": Fraction(1, 2),
    "Square": Fraction(2),
}
"""Type → exponent of the power."""
UNARY = frozenset([
    "Acos", "Asin", "Atan", "Ceil", "Cos", "Digamma", "Elu", "Erf", "Erfc", "Exp", "Expm1", "Floor",
    "IsFinite", "IsInf", "IsNan", "Lgamma", "Log", "Log1p", "LogicalNot", "OnesLike", "Relu6",
    "Rint", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan",
    "Tanh", "ZerosLike",
])  # fmt: skip
"""Types of other functions of one tensor, entry by entry."""
SUMS = frozenset(["Add", "AddN", "AddV2", "Maximum", "Minimum", "Sub"])
PRODUCTS: Mapping[str, int] = {
    **dict.fromkeys(["Mul", "MulNoNan"], 1),
    **dict.fromkeys(["Div", "DivNoNan", "FloorDiv", "RealDiv", "TruncateDiv", "Xdivy"], -1),
}
"""Type → exponent of the second operand."""
COMPARISONS = frozenset(
    ["Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "NotEqual"]
)
REDUCTIONS: Mapping[str, Fraction | int] = {
    "All": 0,
    "Any": 0,
    "EuclideanNorm": Fraction(1, 2),
    "Max": 0,
    "Mean": 0,
    "Min": 0,
    "Sum": 1,
}
"""Type of a reduction → degree that it adds if it reduces the rows."""
LINKED_BY_LOOPS = frozenset(
    ["Exit", "TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayReadV3"]
)
"""Types of the operations that have the results of loops."""
