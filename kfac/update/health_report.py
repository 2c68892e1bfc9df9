"""Health of K-FAC: scalar summaries below `kfac/monitor/`.

Damping and what it is adapted by, the mean curvature as a scale for it, how often something went
wrong, how long each phase of a step took, and of each factor the trace and how badly it is
conditioned. All but the durations is computed only in the steps whose summaries are written, the
numbers of a factor by one operation where that is possible. Called by the step; how to read the
curves is in docs/howto/kfac_tuning.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.curvature.timing import PhaseTimes
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.matrix import MatrixFactor
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE
from kfac.linalg.damped_matrix import RARE_PATHS
from kfac.linalg.shared import Reading, shared
from kfac.state import read

v1 = tf.compat.v1

_MOST_COUNTERS = 16
"""Counters that one operation reads; a power of two."""


class SlotNumbers(NamedTuple):
    """Numbers of a function that is kept.

    Attributes:
      norm: Half its squared Frobenius norm, float32 [].
      rare_paths: Number of times that each of `RARE_PATHS` was taken, int64 [3].
    """

    norm: Tensor
    rare_paths: Tensor


class FactorNumbers(NamedTuple):
    """Numbers of an average S/w, and of the functions of it that are kept.

    Attributes:
      trace: The trace of the matrix that the average stands for, float64 [].
      weight: w, float32 [].
      norm: Half the average's squared Frobenius norm, float32 []; None if no inverse is kept.
      slots: Those of the functions, in the order of slots.
    """

    trace: Tensor
    weight: Tensor
    norm: Tensor | None
    slots: tuple[SlotNumbers, ...]


def summarize(
    scalars: Mapping[str, Scalar],
    blocks: Sequence[FisherBlock],
    factors: Sequence[FisherFactor],
    times: PhaseTimes,
) -> None:
    """Adds the summaries to the graph.

    `scalars` are more values to show, by name. The factors, those of the blocks among them, have
    their variables.
    """
    numbers = {factor.name: numbers_of(factor) for factor in factors}
    slots = [slot for each in numbers.values() for slot in each.slots]
    none = tf.zeros([len(RARE_PATHS)], tf.int64)
    rare_paths = tf.unstack(tf.add_n([none, *(slot.rare_paths for slot in slots)]))
    refused = total_of([factor.cov_variables[-1] for factor in factors])
    traces = {name: each.trace for name, each in numbers.items()}
    with v1.name_scope("kfac/monitor/"):
        shown = {
            **scalars,
            "mean_curvature": _mean_eigenvalue(blocks, traces),
            "layers_without_inverse": _count_without_inverse(blocks, numbers),
            "refused_statistics": refused,
            **{f"{name}_inverses": n for name, n in zip(RARE_PATHS, rare_paths, strict=True)},
            **{f"{name}/trace": trace for name, trace in traces.items()},
            **_conditions(factors, numbers),
        }
        _show(shown)
        times.summarize()


def _show(scalars: Mapping[str, Scalar]) -> None:
    """Adds one summary op for all values. Their tags are unique in the graph."""
    names: dict[DType, list[str]] = {}
    values: dict[DType, list[Tensor]] = {}
    for name, value in scalars.items():
        if tf.is_tensor(value):
            known = tf.convert_to_tensor(value)
        else:
            known = tensor_ops.as_scalar(value, tf.float32)
        with v1.name_scope(name) as scope:
            names.setdefault(known.dtype, []).append(scope.rstrip("/"))
        values.setdefault(known.dtype, []).append(known)
    parts = [tf.cast(tf.stack(part), tf.float32) for part in values.values()]
    whole = tf.concat(parts, axis=0) if len(parts) > 1 else parts[0]
    tags = [name for part in names.values() for name in part]
    summary = tf.raw_ops.ScalarSummary(tags=tags, values=whole)
    v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)


def _conditions(
    factors: Sequence[FisherFactor], numbers: Mapping[str, FactorNumbers]
) -> dict[str, Tensor]:
    """Returns ‖M‖·‖(M + d·I)⁻¹‖ of factors M [n, n] in Frobenius norms, by name.

    With eigenvalues from e_min to e_max it is at least e_max/(e_min + d), at most n times that.
    Factors that keep no inverse are left out.
    """
    squares = {}
    for factor in factors:
        of_factor = numbers[factor.name]
        for slot, kept in zip(factor.inverses, of_factor.slots, strict=True):
            if slot.function == INVERSE:
                squares[f"{slot.name}_condition"] = [of_factor.norm, kept.norm]
    if not squares:
        return {}
    norms = tf.sqrt(2 * tf.reshape(tf.stack(tf.nest.flatten(list(squares.values()))), [-1, 2]))
    return dict(zip(squares, tf.unstack(tf.reduce_prod(norms, axis=1)), strict=True))


def _count_without_inverse(
    blocks: Sequence[FisherBlock], numbers: Mapping[str, FactorNumbers]
) -> Tensor:
    """Returns how many blocks have no inverse yet; float32 [].

    A block has its inverse when nothing that it is read from is zero.
    """
    values: list[Tensor] = []
    owners: list[int] = []
    for owner, block in enumerate(blocks):
        for factor in block.factors:
            of_factor = numbers[factor.name]
            values += [slot.norm for slot in of_factor.slots]
            if not factor.keeps_inverses:
                values.append(of_factor.weight)
            owners += [owner] * (len(values) - len(owners))
    is_known = tf.cast(tf.not_equal(tf.stack(values), 0), tf.float32)
    known = tf.math.unsorted_segment_prod(is_known, tf.constant(owners), len(blocks))
    return len(blocks) - tf.reduce_sum(known)


def mean_curvature(blocks: Sequence[FisherBlock]) -> Tensor:
    """Returns the mean eigenvalue of all blocks together, without damping; float64 [].

    It is NaN before the first averages.
    """
    # Blocks may share factors.
    factors = {factor.name: factor for block in blocks for factor in block.factors}
    traces = {}
    for name, factor in factors.items():
        with v1.device(factor.cov_variables[0].device):
            traces[name] = factor.trace()
    return _mean_eigenvalue(blocks, traces)


def _mean_eigenvalue(blocks: Sequence[FisherBlock], factor_traces: Mapping[str, Tensor]) -> Tensor:
    """Returns the mean eigenvalue of all blocks together; float64 []."""
    traces = [tf.cast(block.trace(factor_traces), tf.float64) for block in blocks]
    sizes = [param.shape.num_elements() for block in blocks for param in as_tuple(block.params)]
    return tf.add_n(traces) / tf.constant(float(sum(sizes)), tf.float64)


def numbers_of(factor: FisherFactor) -> FactorNumbers:
    """Reads the numbers of a factor now, where its variables are."""
    slots, weight, matrix = factor.inverses, factor.cov_variables[1], None
    with v1.device(weight.device):
        if any(slot.function == INVERSE for slot in slots):
            if isinstance(factor, MatrixFactor):
                matrix = factor.source
            else:
                matrix = factor.get_cov_as_linear_operator().to_dense()
        variables = tuple(slot.variables for slot in slots)
        (trace, number, norm), *kept = _numbers(factor.trace, weight, matrix, variables)
        return FactorNumbers(trace, number, norm, tuple(SlotNumbers(*each) for each in kept))


@shared
def _numbers(
    trace: Tensor | Reading,
    weight: Variable,
    matrix: Tensor | Reading | None,
    slots: tuple[tuple[Variable, Variable], ...],
) -> tuple[Any, ...]:
    """Returns what `FactorNumbers` has of the average, then what `SlotNumbers` has of each slot."""
    average = _average_numbers(trace, weight, matrix)
    return average, *(_slot_numbers(*slot) for slot in slots)


@shared
def _average_numbers(
    trace: Tensor | Reading, weight: Variable, matrix: Tensor | Reading | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    matrix, trace = (each() if callable(each) else each for each in (matrix, trace))
    norm = None if matrix is None else tf.nn.l2_loss(tf.cast(matrix, tf.float32))
    return tf.cast(trace, tf.float64), tf.cast(read(weight), tf.float32), norm


@shared
def _slot_numbers(matrix: Variable, rare_paths: Variable) -> tuple[Tensor, Tensor]:
    return tf.nn.l2_loss(tf.cast(read(matrix), tf.float32)), read(rare_paths)


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
