"""What all factors share: the moving average of a second moment, over sources and towers.

A factor turns each tensor into rows (its family's business), averages their outer products over
all towers, and keeps a moving average in variables. It does not know about damping or blocks.
Called by the blocks, which make factors, and by the estimator, which updates them.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac import linalg
from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.fisher_factors.inverse import InverseSlot
from kfac.state import Assignment, assign_all, make_counter, make_variable, read

v1 = tf.compat.v1

Sources = tuple[tuple[Tensor, ...], ...]
"""Tensors by [source][tower]."""

Substitutes = Mapping[Any, Tensor]
"""Tensors to use instead of others, by the reference (`.ref()`) of the tensor they replace."""


class FisherFactor(abc.ABC):
    """A moving average of the second moment of rows, and damped inverses of it.

    The average is kept as a sum S and a weight w, both zero at first: S ← βS + ωC, w ← βw + ω for
    a batch statistic C, and the value is S/w, free of bias towards the zero start. A refused
    batch, such as one with a non-finite statistic, changes neither, and is counted.

    Attributes:
      name: Path of the variables below `kfac/`.
    """

    def __init__(self, tensors: Sources, devices: tuple[str, ...], name: str) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: What the statistic is made from, by [source][tower].
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
        """
        self.name = name
        self._tensors = tensors
        self._devices = devices
        self._average: tuple[Variable, ...] = ()
        self._inverses: dict[str, InverseSlot] = {}

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Rows of the matrix; raises ValueError where static shapes do not tell."""

    @abc.abstractmethod
    def rows(self, tensor: Tensor) -> Tensor:
        """Turns one tower's tensor into the rows [r, dimension] whose second moment is meant."""

    @property
    def dtype(self) -> DType:
        """Dtype of the matrix: that of the tensors, float32 for 16-bit ones."""
        return linalg.statistics_dtype(self._tensors[0][0].dtype)

    @property
    def cov(self) -> Tensor:
        """The value S/w [dimension, dimension], read now; NaN before the first update."""
        total, weight, _ = self._average
        return read(total) / read(weight)

    def trace(self) -> Tensor:
        """Returns the trace of the value, read now; shape []."""
        total, weight, _ = self._average
        return tf.linalg.trace(read(total)) / read(weight)

    def get_cov_vars(self) -> tuple[Variable, ...]:
        """Returns the sum S, the weight w and the number of refused statistics."""
        return self._average

    def get_inv_vars(self) -> tuple[Variable, ...]:
        """Returns the variables of all inverses, in order of registration."""
        return tuple(v for slot in self._inverses.values() for v in slot.variables)

    @property
    def inverses(self) -> tuple[InverseSlot, ...]:
        """The registered inverses."""
        return tuple(self._inverses.values())

    def instantiate_cov_variables(self, device: str = "") -> None:
        """Makes the variables of the moving average, once, on `device`."""
        if not self._average:
            shape = [self.dimension, self.dimension]
            self._average = (
                make_variable(f"{self.name}/cov", shape, self.dtype, device),
                make_variable(f"{self.name}/cov_weight", [], self.dtype, device),
                make_counter(f"{self.name}/cov_refused", device),
            )

    def instantiate_inv_variables(self, device: str = "") -> None:
        """Makes the variables of the registered inverses, once, on `device`."""
        for slot in self._inverses.values():
            slot.make_variables(self.dimension, self.dtype, device)

    def register_inverse(self, name: str, damping: Callable[[], Tensor]) -> InverseSlot:
        """Asks for a damped inverse.

        Args:
          name: Path of its variables below `kfac/`; the same name gives the same inverse.
          damping: Returns what to add to the diagonal, shape [].
        """
        return self._inverses.setdefault(name, InverseSlot(name, damping))

    def batch_statistic(self, substitutes: Substitutes | None = None) -> Tensor:
        """Returns C [dimension, dimension], the second moment of this batch.

        For each source the outer products of all towers over the number of all rows, so that
        towers weigh by their share of the batch; summed over sources. Each tower's product is
        computed on its own device.

        Args:
          substitutes: Tensors to use instead of those that the factor was made with.
        """
        substitutes = substitutes or {}
        statistic = [
            self._source_statistic([substitutes.get(t.ref(), t) for t in towers])
            for towers in self._tensors
        ]
        return tf.add_n(statistic)

    def _source_statistic(self, towers: Sequence[Tensor]) -> Tensor:
        products, counts = [], []
        for tensor, device in zip(towers, self._devices, strict=True):
            with v1.device(device):
                rows = tf.cast(self.rows(tensor), self.dtype)
                products.append(linalg.outer_product(rows))
                counts.append(tf.shape(rows)[0])
        return tf.add_n(products) / tf.cast(tf.add_n(counts), self.dtype)

    def updated_average(
        self, statistic: Tensor, accept: Tensor, ema_decay: Scalar, ema_weight: Scalar = 1.0
    ) -> list[Assignment]:
        """Folds a batch into the average; returns the new values of `get_cov_vars()`.

        Args:
          statistic: C [dimension, dimension].
          accept: bool []; when false the batch is counted as refused and changes nothing else.
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        total, weight, refused = self._average
        beta, omega = (linalg.as_scalar(x, self.dtype) for x in (ema_decay, ema_weight))
        old_total, old_weight = read(total), read(weight)
        return [
            Assignment(total, tf.where(accept, beta * old_total + omega * statistic, old_total)),
            Assignment(weight, tf.where(accept, beta * old_weight + omega, old_weight)),
            Assignment(refused, read(refused) + tf.cast(tf.logical_not(accept), tf.int64)),
        ]

    def make_covariance_update_op(self, ema_decay: Scalar, ema_weight: Scalar = 1.0) -> Operation:
        """Returns an op that folds this batch into the average, if its statistic is finite.

        Args:
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        statistic = self.batch_statistic()
        accept = linalg.all_finite(statistic)
        return assign_all(self.updated_average(statistic, accept, ema_decay, ema_weight))

    def updated_inverses(self) -> list[Assignment]:
        """Inverts the value anew; returns the new values of `get_inv_vars()`."""
        value = self.cov
        return [a for slot in self._inverses.values() for a in slot.updated(value)]

    def make_inverse_update_ops(self) -> list[Operation]:
        """Returns one op that recomputes all inverses from the value."""
        return [assign_all(self.updated_inverses())]

    def _checked_size(self, rank: int) -> int:
        """Returns the static size of the last axis of the tensors, which must have `rank` axes."""
        tensor = self._tensors[0][0]
        size = linalg.static_size(tensor, -1) if tensor.shape.rank == rank else None
        if size is None:
            raise ValueError(
                f"Cannot compute K-FAC statistics {self.name!r}: tensor "
                f"{tensor.name!r} has shape {tensor.shape}. Accepted is a tensor with {rank} "
                "axes, the last of static size. Register the layer with its inputs and outputs as "
                "the layer computes them, and set their static shape."
            )
        return size
