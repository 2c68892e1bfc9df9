"""What all factors share: the moving average of a second moment, over sources and towers.

A factor turns each tower's tensors into a sum over its examples (its family's business), averages
over all towers, and keeps a moving average in variables. It does not know about blocks. Called by
the blocks, which make factors, and by the estimator, which updates them.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_factors.slot import Damping, MatrixSlot, current_dampings
from kfac.linalg import tensor_ops
from kfac.linalg.linear_operator import LinearOperator
from kfac.moved_names import with_moved_attributes
from kfac.state import (
    Addition,
    Assignment,
    Change,
    assign_all,
    make_counter,
    make_variable,
    read,
)

v1 = tf.compat.v1

Sources = tuple[tuple[Any, ...], ...]
"""Tensors, or tuples of Tensors, by [source][tower]."""

Substitutes = Mapping[Any, Tensor]
"""Tensors to use instead of others, by the reference (`.ref()`) of the tensor they replace."""


class Moment(NamedTuple):
    """What one tower contributes to a statistic.

    Attributes:
      total: Sum over its examples, of the shape of the statistic.
      count: Over how many it is, int [].
    """

    total: Tensor
    count: Tensor


@with_moved_attributes
class FisherFactor(abc.ABC):
    """A moving average of a second moment, and functions of it when damped.

    The average is kept as a sum S and a weight w, both zero at first: S ← βS + ωC, w ← βw + ω for
    a batch statistic C, and the value is S/w, free of bias towards the zero start. A refused
    batch, such as one with a non-finite statistic, changes neither, and is counted.

    Attributes:
      name: Path of the variables below `kfac/`.
    """

    def __init__(
        self,
        tensors: Sources,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
        dtype: DType = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: What the statistic is made from, by [source][tower].
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
          dtype: What the tensors stand for; None means what they are.
        """
        self.name = name
        self._tensor_dtype = dtype or tf.nest.flatten(tensors)[0].dtype
        self._tensors = tensors
        self._devices = devices
        self._config = config or CurvatureConfig()
        self._average: tuple[Variable, ...] = ()

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Rows of the matrix that is meant; raises ValueError where static shapes do not tell."""

    @property
    @abc.abstractmethod
    def cov_shape(self) -> tuple[int, ...]:
        """Shape in which the matrix is kept: that of the statistic."""

    @property
    @abc.abstractmethod
    def inverse_cost(self) -> float:
        """Work of one update of everything registered, in multiplications, roughly."""

    @abc.abstractmethod
    def _tower_moment(self, tensors: Any) -> Moment:
        """Returns one tower's share, in `dtype`, made from its entry of the constructor's."""

    @abc.abstractmethod
    def trace(self) -> Tensor:
        """Returns the trace of the matrix, read now; shape []."""

    # Damped functions of the matrix.

    @abc.abstractmethod
    def register_matpower(self, exponent: float, damping: Damping) -> None:
        """Asks for (M + d·I)^e to be kept."""

    @abc.abstractmethod
    def register_cholesky(self, damping: Damping) -> None:
        """Asks for the lower triangular L with LLᵀ = M + d·I to be kept."""

    @abc.abstractmethod
    def register_cholesky_inverse(self, damping: Damping) -> None:
        """Asks for L⁻¹ to be kept."""

    @abc.abstractmethod
    def get_matpower(self, exponent: float, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^e as of its last update; for e = 1 as of now."""

    @abc.abstractmethod
    def get_cholesky(self, damping: Damping) -> LinearOperator:
        """Returns L as of its last update."""

    @abc.abstractmethod
    def get_cholesky_inverse(self, damping: Damping) -> LinearOperator:
        """Returns L⁻¹ as of its last update."""

    @abc.abstractmethod
    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""

    def register_inverse(self, damping: Damping) -> None:
        """Asks for (M + d·I)⁻¹ to be kept."""
        self.register_matpower(-1, damping)

    def get_inverse(self, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)⁻¹ as of its last update."""
        return self.get_matpower(-1, damping)

    @property
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """All that is registered and kept in variables, in order of registration."""
        return ()

    @property
    def keeps_inverses(self) -> bool:
        """Whether `get_inverse` reads what is kept only, and not the average as it is now."""
        return False

    def has_inverse(self) -> Tensor:
        """Returns whether all that `get_inverse` depends on was computed at least once, bool []."""
        known = [slot.is_computed() for slot in self.inverses]
        if not self.keeps_inverses:
            known.append(read(self._average[1]) > 0)
        return tf.reduce_all(tf.stack([tf.constant(True), *known]))

    def get_inv_vars(self) -> tuple[Variable, ...]:
        """Returns the variables of all inverses and the like, in order of registration."""
        return tuple(v for slot in self.inverses for v in slot.variables)

    @abc.abstractmethod
    def instantiate_inv_variables(self, device: str = "") -> None:
        """Makes the variables of all that is registered, once, on `device`."""

    @property
    def inverse_update_vars(self) -> tuple[Variable, ...]:
        """What an update of the inverses assigns: their variables, and what depends on them."""
        return self.get_inv_vars()

    @property
    def dampings(self) -> tuple[Damping, ...]:
        """What is added to the diagonal, for each of `inverses`."""
        return tuple(slot.damping for slot in self.inverses)

    @abc.abstractmethod
    def updated_inverses(self, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all that is registered; returns the changes of `inverse_update_vars`.

        Args:
          dampings: By name; `dampings` and perhaps those of other factors.
        """

    def make_inverse_update_ops(self) -> list[Operation]:
        """Returns one op that recomputes all that is registered from the value."""
        return [assign_all(updated_inverses([self], [""]))]

    # The moving average.

    @property
    def dtype(self) -> DType:
        """Dtype of the average: that of the tensors, float32 for 16-bit ones, or the config's."""
        if self._config.factor_dtype is not None:
            return tf.as_dtype(self._config.factor_dtype)
        return tensor_ops.statistics_dtype(self._tensor_dtype)

    @property
    def inverse_dtype(self) -> DType:
        """Dtype in which inverses and the like are kept."""
        chosen = self._config.inverse_dtype
        return self.dtype if chosen is None else tf.as_dtype(chosen)

    @property
    def value(self) -> Tensor:
        """The moving average S/w of `cov_shape`, read now; NaN before the first update."""
        total, weight, _ = self._average
        return read(total) / read(weight)

    @property
    def cov(self) -> Tensor:
        """The same as `value`."""
        return self.value

    def get_cov_vars(self) -> tuple[Variable, ...]:
        """Returns the sum S, the weight w and the number of refused statistics."""
        return self._average

    def instantiate_cov_variables(self, device: str = "") -> None:
        """Makes the variables of the moving average, once, on `device`."""
        if not self._average:
            self._average = (
                make_variable(f"{self.name}/cov", self.cov_shape, self.dtype, device),
                make_variable(f"{self.name}/cov_weight", [], self.dtype, device),
                make_counter(f"{self.name}/cov_refused", device),
            )

    def batch_statistic(self, substitutes: Substitutes | None = None) -> Tensor:
        """Returns C of `cov_shape`, the second moment of this batch.

        For each source the sums of all towers over the number of all examples, so that towers
        weigh by their share of the batch; summed over sources. Each tower's sum is computed on its
        own device.

        Args:
          substitutes: Tensors to use instead of those that the factor was made with.
        """
        return self.statistic(self.batch_moment(substitutes))

    def batch_moment(self, substitutes: Substitutes | None = None) -> Moment:
        """Returns the sum that `batch_statistic` is made from, and over how many examples it is.

        Moments of several batches may be added up.

        Args:
          substitutes: Tensors to use instead of those that the factor was made with.
        """
        known = substitutes or {}
        sources = [
            self._source_moment(
                tf.nest.map_structure(lambda t: known.get(t.ref(), t), list(towers))
            )
            for towers in self._tensors
        ]
        # All sources are about the same examples.
        return Moment(tf.add_n([source.total for source in sources]), sources[0].count)

    def statistic(self, moment: Moment) -> Tensor:
        """Returns C of `cov_shape`, of the examples of a moment."""
        mean = moment.total / tf.cast(moment.count, self.dtype)
        return tensor_ops.with_shape(self._from_mean(mean), self.cov_shape)

    def _source_moment(self, towers: Sequence[Any]) -> Moment:
        totals, counts = [], []
        crosses = len(set(self._devices)) > 1
        for tensors, device in zip(towers, self._devices, strict=True):
            with v1.device(device):
                total, count = self._tower_moment(tensors)
                totals.append(self._pack(total) if crosses else total)
                counts.append(count)
        total = tf.add_n(totals)
        return Moment(self._unpack(total) if crosses else total, tf.add_n(counts))

    def _from_mean(self, mean: Tensor) -> Tensor:
        """Turns the mean over all examples of a batch into the statistic."""
        return mean

    def _pack(self, total: Tensor) -> Tensor:
        """Makes a tower's sum smaller before it crosses to another device."""
        return total

    def _unpack(self, total: Tensor) -> Tensor:
        """Undoes `_pack`."""
        return total

    def is_finite(self, statistic: Tensor) -> Tensor:
        """Returns whether every entry of a statistic of `cov_shape` is finite, bool []."""
        return tensor_ops.all_finite(statistic)

    def updated_average(
        self, statistic: Tensor, accept: Tensor, ema_decay: Scalar, ema_weight: Scalar = 1.0
    ) -> list[Change]:
        """Folds a batch into the average; returns the changes of `get_cov_vars()`.

        Args:
          statistic: C of `cov_shape`.
          accept: bool []; when false the batch is counted as refused and changes nothing else.
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        total, weight, refused = self._average
        beta, omega = (tensor_ops.as_scalar(x, self.dtype) for x in (ema_decay, ema_weight))
        is_one = isinstance(ema_weight, (int, float)) and ema_weight == 1
        new = statistic if is_one else omega * statistic
        # Whether to accept is known late, when all statistics are. Then there is only to choose.
        old_total, old_weight = read(total), read(weight)
        with v1.control_dependencies([new]):
            past = beta * old_total
        return [
            Assignment(total, tensor_ops.choose(accept, past + new, old_total)),
            Assignment(weight, tensor_ops.choose(accept, beta * old_weight + omega, old_weight)),
            Addition(refused, tf.cast(tf.logical_not(accept), tf.int64)),
        ]

    def make_covariance_update_op(self, ema_decay: Scalar, ema_weight: Scalar = 1.0) -> Operation:
        """Returns an op that folds this batch into the average, if its statistic is finite.

        Args:
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        statistic = self.batch_statistic()
        accept = self.is_finite(statistic)
        return assign_all(self.updated_average(statistic, accept, ema_decay, ema_weight))

    def _vector_size(self) -> int:
        """Returns the static size n of vectors [rows, n], also of repeated layers."""
        tensors = self._tensors[0][0]
        rank = (tensors[0].shape.rank or 0) if isinstance(tensors, tuple) else 2
        return self._checked_size(tensors, rank=max(rank, 2))

    def _checked_size(self, tensors: Any, rank: int, axis: int = -1) -> int:
        """Returns the static size of an axis of a tensor, which must have `rank` axes."""
        tensor = tf.nest.flatten(tensors)[0]
        size = tensor_ops.static_size(tensor, axis) if tensor.shape.rank == rank else None
        if size is None:
            raise ValueError(
                f"Cannot compute K-FAC statistics {self.name!r}: tensor "
                f"{tensor.name!r} has shape {tensor.shape}. Accepted is a tensor with {rank} "
                f"axes, {'the last' if axis == -1 else f'number {axis}'} of static size. Register "
                "the layer with its inputs and outputs as the layer computes them, and set their "
                "static shape."
            )
        return int(size)


def updated_inverses(factors: Sequence[FisherFactor], devices: Sequence[str]) -> list[Change]:
    """Computes all that is registered with some factors, and the dampings of a layer only once.

    Args:
      factors: Whose inverses and the like to compute.
      devices: Where to do it, by factor.

    Returns:
      The changes of their `inverse_update_vars`, factor after factor.
    """
    changes: list[Change] = []
    dampings: dict[str, Tensor] = {}
    for factor, device in zip(factors, devices, strict=True):
        with v1.device(device):
            dampings = current_dampings(factor.dampings, dampings)
            changes += factor.updated_inverses(dampings)
    return changes
