"""Products and sums of vectors of parameters, under their names in tensorflow/kfac.

A vector is a list with one part for each variable; functions whose names end in `_p` take pairs
(part, variable), as `KfacOptimizer.multiply_preconditioner` does. Parts are Tensors, or
IndexedSlices without repeated indices. Other names of the old module raise an AttributeError that
says what to use.
"""

from collections.abc import Iterable, Sequence

from kfac._types import Scalar, Tensor, Variable
from kfac.linalg.vectors import Vector, as_dense, entries, inner_product, scale
from kfac.variables import name_of

__all__ = ["ip", "ip_p", "sprod", "sprod_p", "sum_", "sum_p"]

Pairs = Iterable[tuple[Vector, Variable]]


def ip(list1: Sequence[Vector], list2: Sequence[Vector]) -> Tensor:
    """Returns the inner product x·y of two vectors, shape [].

    Args:
      list1: x.
      list2: y, with its parts in the order of x.

    Raises:
      ValueError: The vectors have different numbers of parts.
    """
    return inner_product(list1, list2, entries(list1[0]).dtype)


def ip_p(list1: Pairs, list2: Pairs) -> Tensor:
    """Returns the inner product x·y of two vectors, shape [].

    Args:
      list1: x, as pairs (part, variable).
      list2: y, as pairs with the same variables in the same order.

    Raises:
      ValueError: The variables differ.
    """
    return ip(*(parts for parts, _ in _matched(list1, list2)))


def sprod(scalar: Scalar, list_: Sequence[Vector]) -> tuple[Vector, ...]:
    """Returns c·x.

    Args:
      scalar: c, a number or a Tensor [].
      list_: x.
    """
    return tuple(scale(scalar, list_))


def sprod_p(scalar: Scalar, list_: Pairs) -> tuple[tuple[Vector, Variable], ...]:
    """Returns c·x as pairs.

    Args:
      scalar: c, a number or a Tensor [].
      list_: x, as pairs (part, variable).
    """
    return tuple((*scale(scalar, [part]), variable) for part, variable in list_)


def sum_(list1: Sequence[Vector], list2: Sequence[Vector]) -> tuple[Tensor, ...]:
    """Returns x + y.

    Args:
      list1: x.
      list2: y, with its parts in the order of x.

    Raises:
      ValueError: The vectors have different numbers of parts.
    """
    return tuple(as_dense(x) + as_dense(y) for x, y in zip(list1, list2, strict=True))


def sum_p(list1: Pairs, list2: Pairs) -> tuple[tuple[Tensor, Variable], ...]:
    """Returns x + y as pairs.

    Args:
      list1: x, as pairs (part, variable).
      list2: y, as pairs with the same variables in the same order.

    Raises:
      ValueError: The variables differ.
    """
    (first, variables), (second, _) = _matched(list1, list2)
    return tuple(zip(sum_(first, second), variables, strict=True))


def _matched(list1: Pairs, list2: Pairs) -> list[tuple[list[Vector], list[Variable]]]:
    """Returns the parts and the variables of both; raises ValueError if the variables differ."""
    both = [list(list1), list(list2)]
    found = [([part for part, _ in pairs], [v for _, v in pairs]) for pairs in both]
    names = [[name_of(variable) for variable in variables] for _, variables in found]
    if [v.ref() for v in found[0][1]] != [v.ref() for v in found[1][1]]:
        raise ValueError(
            f"Cannot combine vectors of different variables: {', '.join(names[0])}, and "
            f"{', '.join(names[1])}. Both must have the same variables in the same order."
        )
    return found
