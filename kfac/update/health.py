"""Health of K-FAC: scalar summaries below `kfac/monitor/`.

Damping and what it is adapted by, the mean curvature as a scale for it, how often something went
wrong, how long each phase of a step took, and of each factor the trace and how badly it is
conditioned. All but the durations is computed only in the steps whose summaries are written. Called
by the optimizer; how to read the curves is in docs/howto/kfac_tuning.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.curvature.timing import PhaseTimes
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import MatrixSlot
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE
from kfac.linalg.retries import RARE_PATHS
from kfac.state import read

v1 = tf.compat.v1


def summarize(
    scalars: Mapping[str, Scalar],
    blocks: Sequence[FisherBlock],
    factors: Sequence[FisherFactor],
    times: PhaseTimes,
) -> None:
    """Adds the summaries to the graph.

    Args:
      scalars: More values to show, by name.
      blocks: All blocks.
      factors: All factors, those of the blocks among them, with their variables.
      times: Durations of the phases.
    """
    traces = _read_traces(factors)
    refused = [read(factor.cov_variables[-1]) for factor in factors]
    slots = [slot for factor in factors for slot in factor.inverses]
    none = tf.zeros([len(RARE_PATHS)], tf.int64)
    rare_paths = tf.unstack(tf.add_n([none, *(slot.read_rare_paths() for slot in slots)]))
    with v1.name_scope("kfac/monitor/"):
        kept = {slot.name: _half_squared_norm(slot) for slot in slots}
        shown = {
            **scalars,
            "mean_curvature": _mean_eigenvalue(blocks, traces),
            "layers_without_inverse": _count_without_inverse(blocks, kept),
            "refused_statistics": tf.add_n(refused),
            **{f"{name}_inverses": n for name, n in zip(RARE_PATHS, rare_paths, strict=True)},
            **{f"{name}/trace": trace for name, trace in traces.items()},
            **_conditions(factors, kept),
        }
        _show(shown)
        times.summarize()


def _show(scalars: Mapping[str, Scalar]) -> None:
    """Adds one summary op for all values. Their tags are unique in the graph."""
    names = []
    for name in scalars:
        with v1.name_scope(name) as scope:
            names.append(scope.rstrip("/"))
    values = [tensor_ops.as_scalar(value, tf.float32) for value in scalars.values()]
    summary = tf.raw_ops.ScalarSummary(tags=names, values=tf.stack(values))
    v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)


def _half_squared_norm(slot: MatrixSlot) -> Tensor:
    """Returns half the squared Frobenius norm of a kept function, computed where that is."""
    with v1.device(slot.matrix.device):
        return tf.nn.l2_loss(tf.cast(slot.read(), tf.float32))


def _conditions(factors: Sequence[FisherFactor], kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns ‖M‖·‖(M + d·I)⁻¹‖ of factors M [n, n] in Frobenius norms, by name.

    With eigenvalues from e_min to e_max it is at least e_max/(e_min + d), at most n times that.

    Args:
      factors: With the inverses (M + d·I)⁻¹ as they are kept; those without any are left out.
      kept: The half squared norms of all kept functions, by name.
    """
    squares = {}
    for factor in factors:
        for slot in factor.inverses:
            if slot.function == INVERSE:
                with _device_of(factor):
                    matrix = factor.get_cov_as_linear_operator().to_dense()
                    average = tf.nn.l2_loss(tf.cast(matrix, tf.float32))
                squares[f"{slot.name}_condition"] = [average, kept[slot.name]]
    if not squares:
        return {}
    norms = tf.sqrt(2 * tf.reshape(tf.stack(tf.nest.flatten(list(squares.values()))), [-1, 2]))
    return dict(zip(squares, tf.unstack(tf.reduce_prod(norms, axis=1)), strict=True))


def _count_without_inverse(blocks: Sequence[FisherBlock], kept: Mapping[str, Tensor]) -> Tensor:
    """Returns how many blocks have no inverse yet; float32 [].

    A block has its inverse when nothing that it is read from is zero.

    Args:
      blocks: The blocks.
      kept: The half squared norms of all kept functions, by name.
    """
    values: list[Tensor] = []
    owners: list[int] = []
    for owner, block in enumerate(blocks):
        for factor in block.factors:
            values += [kept[slot.name] for slot in factor.inverses]
            if not factor.keeps_inverses:
                values.append(tf.cast(factor.read_weight(), tf.float32))
            owners += [owner] * (len(values) - len(owners))
    is_known = tf.cast(tf.not_equal(tf.stack(values), 0), tf.float32)
    known = tf.math.unsorted_segment_prod(is_known, tf.constant(owners), len(blocks))
    return len(blocks) - tf.reduce_sum(known)


def mean_curvature(blocks: Sequence[FisherBlock]) -> Tensor:
    """Returns the mean eigenvalue of all blocks together, without damping; float64 [].

    Args:
      blocks: With their averages; NaN before the first of these.
    """
    return _mean_eigenvalue(blocks, _read_traces(f for block in blocks for f in block.factors))


def _read_traces(factors: Iterable[FisherFactor]) -> dict[str, Tensor]:
    """Returns the trace of each factor by its name. Blocks may share factors."""
    return {name: _trace_of_factor(each) for name, each in {f.name: f for f in factors}.items()}


def _mean_eigenvalue(blocks: Sequence[FisherBlock], factor_traces: Mapping[str, Tensor]) -> Tensor:
    """Returns the mean eigenvalue of all blocks together; float64 [].

    Args:
      blocks: The blocks.
      factor_traces: Traces of their factors by name.
    """
    traces = [tf.cast(block.trace(factor_traces), tf.float64) for block in blocks]
    sizes = [param.shape.num_elements() for block in blocks for param in as_tuple(block.params)]
    return tf.add_n(traces) / tf.constant(float(sum(sizes)), tf.float64)


def _trace_of_factor(factor: FisherFactor) -> Tensor:
    """Returns the trace of a factor, computed where its average is."""
    with _device_of(factor):
        return factor.trace()


def _device_of(factor: FisherFactor) -> Any:
    """Returns a scope with the device of a factor's average."""
    return v1.device(factor.cov_variables[0].device)
