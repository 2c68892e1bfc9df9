"""Numbers of factors for summaries, each factor's read by one operation where that is possible.

Called by `kfac.update.health`.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import MatrixSlot
from kfac.fisher_factors.stored_average import AverageKind, are_together
from kfac.linalg.damped_functions import INVERSE
from kfac.linalg.retries import RARE_PATHS
from kfac.linalg.shared_functions import SharedFunction, reading_function
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
    stored, slots = factor.stored_average, factor.inverses
    if stored is None:
        return FactorNumbers(_average_by_operations(factor), _slots_apart(slots))
    both = [*stored.variables, *(variable for slot in slots for variable in slot.variables)]
    if not are_together(both):
        numbers = _called(stored.kind, (), stored.variables)
        return FactorNumbers(AverageNumbers(*numbers), _slots_apart(slots))
    numbers = _called(stored.kind, _dtypes(slots), both)
    return FactorNumbers(AverageNumbers(*numbers[:3]), _as_slots(numbers[3:]))


def total_of(counters: Sequence[Variable]) -> Tensor:
    """Returns the sum of int64 variables [], read now; int64 []."""
    groups: dict[str, list[Variable]] = {}
    for counter in counters:
        groups.setdefault(counter.device, []).append(counter)
    return tf.add_n([part for group in groups.values() for part in _sums_of_some(group)])


def _sums_of_some(counters: Sequence[Variable]) -> list[Tensor]:
    """Returns sums that together are the sum of counters on one device."""
    if not are_together(counters):
        return [read(counter) for counter in counters]
    sums, left = [], list(counters)
    count = _MOST_COUNTERS
    while left:
        while count > len(left):
            count //= 2
        with v1.device(None), v1.device(left[0].device):
            sums += _sum_of(count)(*(counter.handle for counter in left[:count]))
        left = left[count:]
    return sums


@functools.cache
def _sum_of(count: int) -> SharedFunction:
    specs = [tf.TensorSpec([], tf.int64)] * count
    return reading_function(lambda *values: tf.add_n(values), specs, name="sum")


def _average_by_operations(factor: FisherFactor) -> AverageNumbers:
    with v1.device(factor.cov_variables[0].device):
        norm = None
        if any(slot.function == INVERSE for slot in factor.inverses):
            norm = _half_squared_norm(factor.get_cov_as_linear_operator().to_dense())
        trace = tf.cast(factor.trace(), tf.float64)
        return AverageNumbers(trace, tf.cast(factor.read_weight(), tf.float32), norm)


def _slots_apart(slots: Sequence[MatrixSlot]) -> tuple[SlotNumbers, ...]:
    return tuple(SlotNumbers(*_called(None, _dtypes([slot]), slot.variables)) for slot in slots)


def _as_slots(numbers: Sequence[Tensor]) -> tuple[SlotNumbers, ...]:
    return tuple(map(SlotNumbers, numbers[::2], numbers[1::2]))


def _dtypes(slots: Sequence[MatrixSlot]) -> tuple[DType, ...]:
    return tuple(slot.matrix.dtype.base_dtype for slot in slots)


def _called(
    kind: AverageKind | None, dtypes: tuple[DType, ...], variables: Sequence[Variable]
) -> Sequence[Tensor]:
    """Returns the numbers of an average of a kind, and of slots of these dtypes, by one operation.

    The variables, on one device, are those of the average, if there is one, and of each slot.
    """
    with v1.device(None), v1.device(variables[0].device):
        if are_together(variables):
            return _numbers(kind, dtypes)(*(variable.handle for variable in variables))
        return _computed(kind, *map(read, variables))


@functools.cache
def _numbers(kind: AverageKind | None, dtypes: tuple[DType, ...]) -> SharedFunction:
    specs = [] if kind is None else list(kind.specs)
    for dtype in dtypes:
        specs.append(tf.TensorSpec([None, None], dtype))
        specs.append(tf.TensorSpec([len(RARE_PATHS)], tf.int64))
    return reading_function(functools.partial(_computed, kind), specs, name="numbers")


def _computed(kind: AverageKind | None, *values: Tensor) -> list[Tensor]:
    numbers: list[Tensor] = []
    slots = list(values)
    if kind is not None:
        total, weight, *slots = slots
        trace = tf.cast(kind.trace(total, weight), tf.float64)
        numbers = [trace, tf.cast(weight, tf.float32), _half_squared_norm(total / weight)]
    for matrix, rare_paths in zip(slots[::2], slots[1::2], strict=True):
        numbers += [_half_squared_norm(matrix), rare_paths]
    return numbers


def _half_squared_norm(matrix: Tensor) -> Tensor:
    return tf.nn.l2_loss(tf.cast(matrix, tf.float32))
