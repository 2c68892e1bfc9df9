"""The interface of all factors: a second moment over sources and towers, and its moving average.

Each family turns one tower's tensors into a sum over its examples. A factor adds the sums of all
towers, divides by the number of examples, and keeps a moving average of the quotient in variables.
It knows no blocks. Called by the blocks, which make factors, and by the estimator, which updates
several factors at once. Programs of tensorflow/kfac, which update factors one by one, call the
methods at the end.
"""

import abc
import math
import numbers
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_factors.by_hand import NamedFunctions
from kfac.fisher_factors.kept import Damping, MatrixSlot, current_dampings, fold_average, read_total
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import DampedFunction
from kfac.linalg.linear_operator import LinearOperator
from kfac.linalg.shared import shared_constant
from kfac.state import Change, assign_all, group, make_counter, make_variable, read

v1 = tf.compat.v1

Sources = tuple[tuple[Any, ...], ...]
"""Tensors, or tuples of Tensors, by [source][tower]."""

Substitutes = Mapping[Any, Tensor]
"""Tensors to use instead of others, by the reference (`.ref()`) of the tensor they replace."""

Known = Mapping[str, Tensor]
"""Values by name that are used in place of the current ones."""

NOTHING_KNOWN: Known = types.MappingProxyType({})

_FAR_FROM_OVERFLOW = 2.0**-40
"""Share of the largest number of a dtype that a sum of squares may reach."""


class Moment(NamedTuple):
    """One tower's share of a statistic: a sum over its examples, and their number.

    The total has the shape of the statistic. The count is that of the summed rows or examples, an
    int or an int Tensor [].
    """

    total: Tensor
    count: Scalar


class FisherFactor(NamedFunctions):
    """A moving average of a second moment M, and functions of the damped matrix M + d·I.

    The average is kept as a sum S and a weight w, both zero at first: S ← βS + ωC and w ← βw + ω
    for the statistic C of a batch. A batch whose statistic is not finite does not change them.

    All factors take these arguments, and arguments of their own between `tensors` and `devices`,
    which their classes explain:

      tensors: Tensors of the statistic, by [source][tower].
      devices: Device of each tower's share.
      name: Path of the variables below `kfac/`.
      config: Dtypes and other settings; None means the defaults.

    A factor whose tensors only stand for vectors, as ids do, also gives the vectors' `dtype` here.

    Attributes:
      name: Path of the variables below `kfac/`.
      cov_variables: S, w and the number of refused statistics; empty before they are made.
    """

    def __init__(
        self,
        tensors: Sources,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
        dtype: DType = None,
    ) -> None:
        self.name = name
        self.cov_variables: tuple[Variable, ...] = ()
        self._tensor_dtype = dtype or tf.nest.flatten(tensors)[0].dtype
        self._tensors = tensors
        self._devices = devices
        self._config = config or CurvatureConfig()
        self._slots: dict[tuple[DampedFunction, str], MatrixSlot] = {}
        self._default_substitutes: Callable[[], Substitutes] = dict

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Rows of the matrix M; raises ValueError if static shapes do not give it."""

    def _static_size(self, rank: int, axis: int = -1, part: int | None = None) -> int:
        """Returns the static size of an axis, counted from the end, of tensors with `rank` axes.

        Uses, see `kfac.fisher_factors.uses`, may have further axes in front. `part` is the number
        of one of several tensors of a tower.
        """
        tensors = self._tensors[0][0] if part is None else self._tensors[0][0][part]
        tensor = tf.nest.flatten(tensors)[0]
        if isinstance(tensors, tuple):
            rank = max(rank, tensor.shape.rank or 0)
        size = tensor.shape.as_list()[axis] if tensor.shape.rank == rank else None
        if size is None:
            raise ValueError(
                f"Cannot compute K-FAC statistics {self.name!r}: tensor "
                f"{tensor.name!r} has shape {tensor.shape}. Accepted is a tensor with {rank} "
                f"axes, {'the last' if axis == -1 else f'number {axis % rank}'} of static size. "
                "Register the layer with its inputs and outputs as the layer computes them, and "
                "set their static shape."
            )
        return int(size)

    @property
    @abc.abstractmethod
    def cov_shape(self) -> tuple[int, ...]:
        """Shape of the statistic and of its average."""

    @property
    @abc.abstractmethod
    def inverse_cost(self) -> float:
        """Estimated cost of one update of all registered functions, in multiplications."""

    @abc.abstractmethod
    def _tower_moment(self, tensors: Any) -> Moment:
        """Returns one tower's share, in `dtype`, of its entry in the constructor's `tensors`."""

    @abc.abstractmethod
    def trace(self) -> Tensor:
        """Returns the trace of the matrix, read now; shape []."""

    def mean_eigenvalue(self) -> Tensor:
        """Returns the trace over the number of rows, read now; shape []."""
        return self.trace() / tf.constant(self.dimension, self.dtype)

    # The statistic of a batch.

    def batch_statistic(self, substitutes: Substitutes | None = None) -> Tensor:
        """Returns C of `cov_shape`, the second moment of this batch.

        For each source, the sums of all towers are divided by the number of all examples, so towers
        count by their share of the batch. Sources are added. Each tower's sum is computed on the
        tower's device. `substitutes` replace tensors that the factor was made with.
        """
        return self.statistic(self.batch_moment(substitutes))

    def statistic(self, moment: Moment) -> Tensor:
        """Returns C of `cov_shape`, the mean over the examples of a moment."""
        total, count = moment
        if isinstance(count, int):
            count = shared_constant(count, [], self.dtype, total.device)
        mean = total / tensor_ops.as_scalar(count, self.dtype)
        return tensor_ops.with_shape(mean, self.cov_shape)

    def batch_moment(self, substitutes: Substitutes | None = None) -> Moment:
        """Returns the sum and the count whose quotient is `batch_statistic`, of the same arguments.

        Each tower adds up its own rows on its own device. Sources have the same examples: their
        totals are added, and examples count once. Moments of several batches may be added.
        """
        crosses = len(set(self._devices)) > 1
        share = self._packed_tower_moment if crosses else self._tower_moment
        known = self._default_substitutes() if substitutes is None else substitutes
        sources: list[list[Moment]] = []
        for towers in tf.nest.map_structure(lambda t: known.get(t.ref(), t), self._tensors):
            sources.append([])
            for tensors, device in zip(towers, self._devices, strict=True):
                with v1.device(device):
                    sources[-1].append(share(tensors))
        totals = [tf.add_n([moment.total for moment in moments]) for moments in sources]
        if crosses:
            totals = [self.unpacked(total) for total in totals]
        counts = [moment.count for moment in sources[0]]
        is_static = all(isinstance(count, int) for count in counts)
        count = sum(counts) if is_static else tf.add_n([*map(tf.convert_to_tensor, counts)])
        return Moment(tf.add_n(totals), count)

    def _packed_tower_moment(self, tensors: Any) -> Moment:
        """Returns one tower's share in the form in which it crosses to another device."""
        total, count = self._tower_moment(tensors)
        return Moment(self.packed(total), count)

    def packed(self, total: Tensor) -> Tensor:
        """Returns the total of a moment in the form in which it crosses to another device."""
        return total

    def unpacked(self, total: Tensor) -> Tensor:
        """Undoes `packed`."""
        return total

    def stand_for(self, substitutes: Callable[[], Substitutes]) -> None:
        """Takes what a function returns as substitutes wherever none are given."""
        self._default_substitutes = substitutes

    @property
    def can_predict_finite(self) -> bool:
        """True if `will_be_finite` can tell from the tensors that a statistic must be finite."""
        return False

    def will_be_finite(self, substitutes: Substitutes | None = None) -> Tensor:
        """Returns bool [], true if this batch's statistic must be finite; see `can_predict_finite`.

        It is true if the sum of squares of all tensors is far from an overflow. That sum bounds
        each entry of the statistic, up to the number of times that the statistic uses an entry. The
        arguments are those of `batch_statistic`.
        """
        known = self._default_substitutes() if substitutes is None else substitutes
        squares = []
        for towers in self._tensors:
            for tensors, device in zip(towers, self._devices, strict=True):
                with v1.device(device):
                    now = [known.get(t.ref(), t) for t in tf.nest.flatten(tensors)]
                    squares += [tf.nn.l2_loss(tf.cast(t, self.dtype)) for t in now]
        return tf.add_n(squares) <= _FAR_FROM_OVERFLOW * self.dtype.max

    def entries_to_check(self, statistic: Tensor) -> Tensor:
        """Returns entries of a statistic of `cov_shape`; if these are finite, all are."""
        return statistic

    # The moving average.

    @property
    def dtype(self) -> DType:
        """Dtype of statistics and of w: that of the average, or float32 where that is of 16 bits.

        By default it is that of the tensors, or float32 for 16-bit ones.
        """
        return tensor_ops.statistics_dtype(
            tf.as_dtype(self._config.factor_dtype or self._tensor_dtype)
        )

    @property
    def kept_dtype(self) -> DType:
        """Dtype of the variable S."""
        chosen = self._config.factor_dtype
        return self.dtype if chosen is None else tf.as_dtype(chosen)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """Shape of the variable S."""
        return self.cov_shape

    def kept_form(self, statistic: Tensor) -> Tensor:
        """Returns a statistic of `cov_shape` in `kept_shape`."""
        return statistic

    @property
    def average(self) -> tuple[Any, ...]:
        """The arguments of `kept.quotient`: S, w and, if S is packed, whether its size is odd."""
        return self.cov_variables[:2]

    @property
    def cov_bytes(self) -> int:
        """Bytes of the average."""
        return self.kept_dtype.size * math.prod(self.kept_shape)

    def instantiate_cov_variables(self, device: str = "") -> None:
        """Makes the variables of the moving average, once, on `device`."""
        if not self.cov_variables:
            self.cov_variables = (
                make_variable(f"{self.name}/cov", self.kept_shape, self.kept_dtype, device),
                make_variable(f"{self.name}/cov_weight", [], self.dtype, device),
                make_counter(f"{self.name}/cov_refused", device),
            )

    @property
    def value(self) -> Tensor:
        """The moving average S/w of `cov_shape`, read now; NaN before the first update."""
        return read_total(*self.average) / self.read_weight()

    def value_of(self, averages: Known) -> Tensor:
        """Returns the value of the average that is given by the factor's name, else `value`."""
        known = averages.get(self.name)
        return self.value if known is None else known

    def read_weight(self) -> Tensor:
        """Reads w, the weight of all that is in the average, shape []; zero at first."""
        return read(self.cov_variables[1])

    # Damped functions of the matrix.

    @abc.abstractmethod
    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""

    @property
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """The registered functions that are kept in variables, in order of registration."""
        return tuple(self._slots.values())

    @property
    def keeps_inverses(self) -> bool:
        """True if `get_inverse` reads variables of its own rather than the current average."""
        return False

    def has_inverse(self) -> Tensor:
        """Returns bool [], true once everything that `get_inverse` reads has been computed."""
        known = [slot.is_computed() for slot in self.inverses]
        if not self.keeps_inverses:
            known.append(self.read_weight() > 0)
        return tensor_ops.all_true(known)

    @property
    def inv_variables(self) -> tuple[Variable, ...]:
        """Variables of all registered functions: the matrix and the counters of each."""
        return tuple(v for slot in self.inverses for v in slot.variables)

    @property
    def inverse_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of the matrix of each of `inverses`."""
        return tuple(slot.function.shape(self.dimension) for slot in self.inverses)

    @property
    def inverse_dtype(self) -> DType:
        """Dtype of the variables of the registered functions."""
        chosen = self._config.inverse_dtype
        return self.dtype if chosen is None else tf.as_dtype(chosen)

    @property
    def product_dtype(self) -> DType:
        """Dtype of products with the functions: `inverse_dtype`, or float32 for 16-bit ones."""
        return tensor_ops.statistics_dtype(self.inverse_dtype)

    @property
    def inverse_bytes(self) -> int:
        """Bytes of the matrices of all registered functions."""
        return self.inverse_dtype.size * sum(map(math.prod, self.inverse_shapes))

    def instantiate_inv_variables(self, device: str = "") -> None:
        """Makes the variables of all registered functions, once, on `device`."""
        for slot, shape in zip(self.inverses, self.inverse_shapes, strict=True):
            slot.make_variables(shape, self.inverse_dtype, device)

    @property
    def inverse_update_vars(self) -> tuple[Variable, ...]:
        """All variables that an update of the inverses assigns."""
        return self.inv_variables

    @property
    def dampings(self) -> tuple[Damping, ...]:
        """The damping of each of `inverses`."""
        return tuple(slot.damping for slot in self.inverses)

    @property
    def inverse_sources(self) -> tuple["FisherFactor", ...]:
        """Factors whose averages the registered functions are computed from."""
        return (self,) if self.inverses else ()

    @abc.abstractmethod
    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """Computes all registered functions; returns the changes of `inv_variables`.

        Args:
          dampings: d by name, shape [] each: at least those of `dampings`.
          averages: Values of averages by the factor's name.
        """

    def move_average(self, changes: Sequence[Change]) -> list[Change]:
        """Returns the changes of `inverse_update_vars`, given those of `inv_variables`."""
        return list(changes)

    def refresh(self, dampings: Mapping[str, Tensor], device: str) -> list[Operation]:
        """Returns ops that recompute all registered functions from the current averages.

        The dampings are as in `updated_inverses`; the device is that of the active scope.
        """
        del device
        changes = self.move_average(self.updated_inverses(dampings))
        return [assign_all(changes)] if changes else []

    # Updates one by one, for programs of tensorflow/kfac.

    def make_covariance_update_op(self, ema_decay: Scalar, ema_weight: Scalar = 1.0) -> Operation:
        """Returns an op that folds this batch into the average, if its statistic is finite.

        Args:
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        scalars = [x() if callable(x) else x for x in (ema_decay, ema_weight)]
        beta, omega = (
            float(x) if isinstance(x, numbers.Real) else tf.convert_to_tensor(x) for x in scalars
        )
        statistic = self.batch_statistic()
        accept = self.is_finite(statistic)
        kept = self.kept_form(statistic)
        return fold_average(self.cov_variables, kept, accept, beta=beta, omega=omega)

    def make_inverse_update_ops(self) -> list[Operation]:
        """Returns one op that recomputes all registered functions from the value."""
        return [group(*self.refresh(current_dampings(self.dampings), ""))]

    def is_finite(self, statistic: Tensor) -> Tensor:
        """Returns bool [], true if every entry of a statistic of `cov_shape` is finite."""
        return tensor_ops.all_finite(self.entries_to_check(statistic))

    @property
    def cov(self) -> Tensor:
        """The same as `value`."""
        return self.value

    def get_cov_vars(self) -> list[Tensor]:
        """Returns the moving averages, read now; NaN before the first update."""
        return [self.value]

    def get_inv_vars(self) -> list[Variable]:
        """Returns the matrix variables of all registered functions, in order of registration."""
        return [slot.matrix for slot in self.inverses]
