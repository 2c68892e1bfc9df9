"""WorkerStep: sums over all workers in one training step.

Each step begins with a small report of each worker to all: the rows of its batch, and if it wants
to stop. The reports give each worker its share of the batch. A worker whose input has ended sends a
batch without weight until the input of all has ended; then the step fails as at the end of an
input, on all workers alike.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, final

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.all_reduce.group import NO_ROW, WorkerGroup
from replicate.all_reduce.packs import sent_in_packs, shaped_as
from replicate.graph_ops.conditional import run_if, run_unless

v1 = tf.compat.v1

END_SCOPE = "all_inputs_have_ended"
"""Name scope of the operation that ends training when the inputs of all workers have ended."""

_STEP = ("replicate", "worker_step")
"""Key of the collection of a graph's `WorkerStep`. Not a string: never exported."""


@final
class WorkerStep:
    """Sums over workers, in the graph of one of them.

    Attributes:
      group: The workers.
      is_used: True once gradients were summed over the workers.
    """

    def __init__(self, group: WorkerGroup, rows: Any = None, has_batch: Tensor | None = None):
        """Adds nothing to the graph yet.

        Args:
          group: The workers.
          rows: Rows of this worker's batch, an int or an integer scalar; None if that is unknown,
            and all workers have the same.
          has_batch: Boolean scalar, False in steps in which this worker's input has ended; None if
            it never ends.
        """
        self.group = group
        self.is_used = False
        self._rows = 1 if rows is None else rows
        self._has_batch = has_batch
        self._losses: dict[Any, Tensor] = {}
        v1.add_to_collection(_STEP, self)

    @property
    def size(self) -> int:
        """Number of workers."""
        return self.group.size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers with their addresses, by rank."""
        return self.group.names

    @property
    def rank(self) -> int:
        """Number of this worker; the chief has 0."""
        return self.group.rank

    @functools.cached_property
    def wish(self) -> Variable:
        """Local variable, int64 []: above 0 if this worker wants to stop after a step."""
        return _local_number("wish_to_stop")

    @functools.cached_property
    def announcement(self) -> Variable:
        """Local variable, int64 []: in the chief, step of a checkpoint that all shall evaluate."""
        return _local_number("step_to_evaluate")

    @property
    def announced(self) -> Tensor:
        """The chief's `announcement`, as it was at the beginning of the step: float64 [].

        It is sent only with `AllReduce(evaluates=True)`.
        """
        return self._reports[0, 2]

    @property
    def wishes(self) -> Tensor:
        """Each worker's `wish`, by rank, as it was at the beginning of the step: float64 [n]."""
        return self._reports[:, 1]

    def after_check_of_end(self, batch: Any) -> Any:
        """Returns a batch that is not there in the step in which the inputs of all have ended.

        A worker that has a batch does not wait for the reports of the others.

        Args:
          batch: Nest of this worker's Tensors.
        """
        if self._has_batch is None:
            return batch
        reports = self._reports

        def wait() -> Operation:
            with v1.control_dependencies([reports]):
                return tf.no_op()

        with v1.name_scope("end_of_input"), v1.device(CPU):
            checked = run_unless(self._has_batch, wait)
            with v1.control_dependencies([checked]):
                return tf.nest.map_structure(
                    lambda leaf: tf.identity(leaf) if isinstance(leaf, tf.Tensor) else leaf,
                    batch,
                    expand_composites=True,
                )

    def share(self, averages: bool) -> Tensor:
        """Returns the factor of this worker's loss and gradients in the sum, float64 [].

        Args:
          averages: True if losses are means over rows; then the shares of all workers add up to 1.
            False if losses are summed: the share is 1, or 0 without a batch.
        """
        return self._mean_share if averages else self._has_weight

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns sums over all workers, each as on one worker, sent in packs.

        Args:
          tensors: Tensors of number types and known shapes, already weighted.
        """
        return sent_in_packs(tensors, self.group.settings.pack_bytes, self.group.sum)

    def mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns means over all workers, weighted by their rows.

        Args:
          tensors: Floating-point tensors of known shapes.
        """
        return self._weighted(tensors, self._mean_share)

    def of_chief(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns the chief's values, also in steps in which the chief has no batch.

        Args:
          tensors: Tensors of number types and known shapes.
        """
        with v1.device(CPU):
            return [self.group.broadcast(tensor) for tensor in tensors]

    def total(self, loss: Tensor, averages: bool) -> Tensor:
        """Returns the loss of the batches of all workers.

        Args:
          loss: This worker's loss, [].
          averages: As for `share`.
        """
        parts = self.group.of_each(_share_of(tf.reshape(loss, []), self.share(averages)))
        with v1.device(CPU):
            total = tf.reduce_sum(parts)
        self._losses[total.ref()] = parts
        return total

    def losses_of_each(self, total: Tensor) -> Tensor | None:
        """Returns the weighted losses that `total` has added up, [n]; None for another tensor."""
        return self._losses.get(total.ref())

    def weighted_gradients(
        self, gradients_and_variables: Sequence[tuple[Gradient, Variable]], averages: bool
    ) -> list[tuple[Gradient, Variable]]:
        """Returns this worker's part of the sum of gradients over all workers. Nothing is sent.

        Args:
          gradients_and_variables: As for `sum_gradients`.
          averages: As for `share`.
        """
        share = self._share_of_gradients(averages)
        weighted = []
        for gradient, variable in gradients_and_variables:
            values = gradient_values(gradient)
            with v1.device(values.device):
                part = _share_of(values, share)
            weighted.append((with_values(gradient, part), variable))
        return weighted

    def sum_gradients(
        self, gradients_and_variables: Sequence[tuple[Gradient, Variable]], averages: bool
    ) -> list[tuple[Gradient, Variable]]:
        """Sums gradients over all workers, weighted by their shares.

        Sparse gradients stay sparse: the rows of all workers are gathered.

        Args:
          gradients_and_variables: Gradients of this worker's batch.
          averages: As for `share`.

        Raises:
          ValueError: The shape of a variable is not known.
        """
        share = self._share_of_gradients(averages)
        with v1.name_scope("all_reduce"):
            dense = [
                (place, shaped_as(gradient, variable))
                for place, (gradient, variable) in enumerate(gradients_and_variables)
                if not isinstance(gradient, tf.IndexedSlices)
            ]
            sums: dict[int, Gradient] = dict(
                zip(
                    [place for place, _ in dense],
                    self._weighted([gradient for _, gradient in dense], share),
                    strict=True,
                )
            )
            for place, (gradient, _) in enumerate(gradients_and_variables):
                if isinstance(gradient, tf.IndexedSlices):
                    sums[place] = self._gathered(gradient, share)
        return [(sums[place], pair[1]) for place, pair in enumerate(gradients_and_variables)]

    def agreed(self, flags: Tensor) -> Tensor:
        """Returns which flags are True on all workers that have a batch.

        Args:
          flags: Booleans [flags].
        """
        with v1.device(CPU), v1.name_scope("agreed"):
            return tf.equal(self.group.largest(self._refusals(flags)), 0)

    def flags_of_each(self, flags: Tensor) -> Tensor:
        """Returns the flags of all workers, True for those without a batch: bool [n, flags].

        Args:
          flags: Booleans [flags].
        """
        with v1.device(CPU), v1.name_scope("flags_of_each"):
            return tf.equal(self.group.of_each(self._refusals(flags)), 0)

    def names_without(self, flag: Tensor) -> Tensor:
        """Returns the names of the workers on which a flag is False, a string scalar.

        Args:
          flag: Boolean scalar.
        """
        with v1.device(CPU), v1.name_scope("names_without"):
            is_without = tf.logical_not(self.flags_of_each(tf.reshape(flag, [1]))[:, 0])
            found = tf.boolean_mask(tf.constant(self.group.names), is_without)
            return tf.strings.reduce_join(found, separator=", ")

    def _share_of_gradients(self, averages: bool) -> Tensor:
        self.is_used = True
        # Made here, since an optimizer may ask for it in a branch of a condition only.
        self.share(averages=False)
        return self.share(averages)

    @functools.cached_property
    def _reports(self) -> Tensor:
        """Report of each worker: float64 [n, numbers]. Fails if no worker has a batch.

        The numbers are the rows of its batch, -1 if it has none, its wish and, if workers evaluate,
        its announcement.
        """
        sent = [self.wish, *([self.announcement] if self.group.settings.evaluates else [])]
        with _outside(), v1.device(CPU), v1.name_scope("worker_reports"):
            rows = tf.cast(self._rows, tf.float64)
            if self._has_batch is not None:
                rows = tf.where(self._has_batch, rows, -tf.ones_like(rows))
            numbers = [tf.cast(variable.read_value(), tf.float64) for variable in sent]
            reports = self.group.of_each(tf.stack([rows, *numbers]))
            ended = tf.reduce_all(reports[:, 0] < 0)
            with v1.control_dependencies([run_if(ended, _end_of_input)]):
                return tf.identity(reports)

    @functools.cached_property
    def _weights(self) -> Tensor:
        """Weights of the workers, float64 [n]: their rows, or 1 each if all batches are empty."""
        reports = self._reports
        with _outside(), v1.device(CPU), v1.name_scope("worker_weights"):
            rows = tf.maximum(reports[:, 0], 0)
            has_batch = tf.cast(reports[:, 0] >= 0, rows.dtype)
            return tf.where(tf.reduce_sum(rows) > 0, rows, has_batch)

    @functools.cached_property
    def _mean_share(self) -> Tensor:
        weights = self._weights
        with _outside(), v1.device(CPU), v1.name_scope("worker_share"):
            return weights[self.rank] / tf.reduce_sum(weights)

    @functools.cached_property
    def _has_weight(self) -> Tensor:
        weights = self._weights
        with _outside(), v1.device(CPU), v1.name_scope("worker_has_batch"):
            return tf.cast(weights[self.rank] > 0, tf.float64)

    def _refusals(self, flags: Tensor) -> Tensor:
        """Returns int32 [flags], 1 where a flag is False on this worker and it has a batch."""
        return tf.cast(tf.logical_and(tf.logical_not(flags), self._has_weight > 0), tf.int32)

    def _weighted(self, tensors: Sequence[Tensor], share: Tensor) -> list[Tensor]:
        def send(pack: Tensor) -> Tensor:
            return self.group.sum(_share_of(pack, share))

        return sent_in_packs(tensors, self.group.settings.pack_bytes, send)

    def _gathered(self, slices: tf.IndexedSlices, share: Tensor) -> tf.IndexedSlices:
        """Returns the rows of all workers. Rows of workers without a batch are left out."""
        with v1.device(slices.values.device):
            values = _share_of(slices.values, share)
            no_row = tf.constant(NO_ROW, slices.indices.dtype)
            indices = tf.where(share > 0, slices.indices, no_row)
        return self.group.all_slices(tf.IndexedSlices(values, indices, slices.dense_shape))


def current_step() -> WorkerStep | None:
    """Returns the sums over workers of the default graph; None for a process that trains alone."""
    found = v1.get_collection_ref(_STEP)
    return found[-1] if found else None


def _share_of(values: Tensor, share: Tensor) -> Tensor:
    """Returns a worker's share of values. Those of a batch without weight may be NaN: 0 then."""
    return tf.math.multiply_no_nan(values, tf.cast(share, values.dtype))


def _local_number(name: str) -> Variable:
    """Makes a local variable, int64 []: 0 at first."""
    with _outside(), v1.device(CPU):
        return v1.Variable(
            tf.constant(0, tf.int64),
            trainable=False,
            collections=[v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name=name,
        )


def _end_of_input() -> Operation:
    """Returns an operation that fails as at the end of an input."""
    with v1.name_scope(END_SCOPE):
        nothing = tf.data.Dataset.range(0)
        return v1.data.make_one_shot_iterator(nothing).get_next().op


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Leaves names and control dependencies of the place where an operation is first needed."""
    with v1.control_dependencies(None), v1.name_scope(None):
        yield
