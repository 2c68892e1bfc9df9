"""Numbers of factors for summaries, each factor's read by one operation where that is possible.

Called by `kfac.update.health`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.matrix import MatrixFactor
from kfac.linalg.damped_functions import INVERSE
from kfac.linalg.shared import Reading, shared
from kfac.state import read

v1 = tf.compat.v1

_MOST_COUNTERS = 16
"""Counters that one operation reads; a power of two."""


class AverageNumbers(NamedTuple):
    """Numbers of an average S/w.

    Attributes:
      trace: The trace of the matrix that it stands for, float64 [].
      weight: w, float32 [].
      norm: Half its squared Frobenius norm, float32 []; None if no inverse of it is kept.
    """

    trace: Tensor
    weight: Tensor
    norm: Tensor | None


class SlotNumbers(NamedTuple):
    """Numbers of a function that is kept.

    Attributes:
      norm: Half its squared Frobenius norm, float32 [].
      rare_paths: Number of times that each of `RARE_PATHS` was taken, int64 [3].
    """

    norm: Tensor
    rare_paths: Tensor


class FactorNumbers(NamedTuple):
    """Numbers of an average, and of the functions of it that are kept, in the order of slots."""

    average: AverageNumbers
    slots: tuple[SlotNumbers, ...]


def numbers_of(factor: FisherFactor) -> FactorNumbers:
    """Reads the numbers of a factor now, where its variables are."""
    slots = factor.inverses
    has_norm = any(slot.function == INVERSE for slot in slots)
    weight = factor.cov_variables[1]
    with v1.device(weight.device):
        matrix = _matrix(factor) if has_norm else None
        known = tuple(slot.variables for slot in slots)
        average, *of_slots = _numbers(factor.trace, weight, matrix, known)
        return FactorNumbers(AverageNumbers(*average), tuple(SlotNumbers(*x) for x in of_slots))


def _matrix(factor: FisherFactor) -> Tensor | Reading:
    """Returns a matrix M, or a reading of it."""
    is_matrix = isinstance(factor, MatrixFactor)
    return factor.source if is_matrix else factor.get_cov_as_linear_operator().to_dense()


@shared
def _numbers(
    trace: Tensor | Reading,
    weight: Variable,
    matrix: Tensor | Reading | None,
    slots: tuple[tuple[Variable, Variable], ...],
) -> tuple[Any, ...]:
    """Returns what `AverageNumbers` has, then what `SlotNumbers` has of each slot."""
    average = _average_numbers(trace, weight, matrix)
    return average, *(_slot_numbers(*slot) for slot in slots)


@shared
def _average_numbers(
    trace: Tensor | Reading, weight: Variable, matrix: Tensor | Reading | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    norm = None if matrix is None else _half_squared_norm(_known(matrix))
    return tf.cast(_known(trace), tf.float64), tf.cast(read(weight), tf.float32), norm


@shared
def _slot_numbers(matrix: Variable, rare_paths: Variable) -> tuple[Tensor, Tensor]:
    return _half_squared_norm(read(matrix)), read(rare_paths)


def _known(value: Tensor | Reading) -> Tensor:
    return value() if callable(value) else value


def _half_squared_norm(matrix: Tensor) -> Tensor:
    return tf.nn.l2_loss(tf.cast(matrix, tf.float32))


def total_of(counters: Sequence[Variable]) -> Tensor:
    """Returns the sum of int64 variables [], read now; int64 []."""
    groups: dict[str, list[Variable]] = {}
    for counter in counters:
        groups.setdefault(counter.device, []).append(counter)
    sums = []
    for group in groups.values():
        count, start = _MOST_COUNTERS, 0
        while start < len(group):
            while count > len(group) - start:
                count //= 2
            sums.append(_sum(tuple(group[start : start + count])))
            start += count
    return tf.add_n(sums)


@shared
def _sum(counters: tuple[Variable, ...]) -> Tensor:
    return tf.add_n([read(counter) for counter in counters])
