"""WorkerRounds: workers that train apart for some steps, and meet in rounds.

Nothing is sent in the steps between. A round begins with a small report of each worker to all: the
rows of its batches since the last round, its step, and if it wants to stop. The reports give each
worker its share. Then the changes of the weights are summed in packs, and the outer optimizer makes
its step (`replicate.outer_step`), on all workers alike.

Three kinds of variables are equal on all workers after a round: the weights and what the outer
optimizer keeps; statistics of batches, which are averaged; and the global step. All others, such as
the slots of the inner optimizer, stay those of each worker.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Operation, Tensor, Variable
from replicate.all_reduce.compression import Code, compressed_sum
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.packs import packs_of, sent_in_packs
from replicate.batch_norm.statistics import batch_statistics
from replicate.outer_step import OuterStep, nesterov
from replicate.protocols import OPTIONAL_STATE

v1 = tf.compat.v1


class Report(NamedTuple):
    """The reports of all workers in a round.

    Attributes:
      step: The global step of the worker that has made most steps.
      wishes: Each worker's wish to stop, by rank; 0 for none.
      ended: True for each worker that makes no more steps, by rank.
      saves: True if the chief saves the variables after this round.
    """

    step: int
    wishes: list[float]
    ended: list[bool]
    saves: bool


@final
class WorkerRounds:
    """Rounds of all workers, in the graph of one of them.

    Attributes:
      group: The workers.
      variables: Variables that are equal on all workers after a round, once `build` was called.
    """

    def __init__(self, group: WorkerGroup, rows: Any = None):
        """Adds a counter of rows to the graph.

        Args:
          group: The workers.
          rows: Rows of this worker's batch, an int or an integer scalar; None if that is unknown,
            and all workers have the same.
        """
        self.group = group
        self.variables: list[Variable] = []
        self._rows_of_batch = 1 if rows is None else rows
        self._own: list[Variable] = []
        with v1.device(CPU):
            self._rows = _local("rows_of_round", tf.constant(0, tf.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers with their addresses, by rank."""
        return self.group.names

    def counted(self, batch: Any) -> Any:
        """Returns a batch whose rows are counted when it is there.

        Args:
          batch: Nest of this worker's Tensors.
        """
        leaves = tf.nest.flatten(batch, expand_composites=True)
        with v1.name_scope("count_rows"), v1.device(CPU):
            rows = tf.cast(self._rows_of_batch, tf.int64)
            with v1.control_dependencies([leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]):
                counted = self._rows.assign_add(rows, read_value=False)
            with v1.control_dependencies([counted]):
                return tf.nest.map_structure(
                    lambda leaf: tf.identity(leaf) if isinstance(leaf, tf.Tensor) else leaf,
                    batch,
                    expand_composites=True,
                )

    def build(self) -> None:
        """Adds the operations of a round, when the graph has all variables of the model.

        Raises:
          ValueError: The graph has no weights, or the shape of one is not known.
          TypeError: The outer optimizer is of another kind.
        """
        weights = _weights()
        given = self.group.settings.outer_optimizer
        outer = OuterStep("AllReduce", nesterov if given is None else given)
        global_step = v1.train.get_or_create_global_step()
        sent_before = self.group.bytes_sent
        with v1.device(CPU):
            bytes_sent = self._state("outer/bytes_sent", tf.constant(0, tf.int64))
        v1.summary.scalar("bytes_sent", bytes_sent)
        with v1.name_scope("round"):
            with v1.device(CPU):
                self._wish = v1.placeholder_with_default(0, [], "wish")
                self._has_ended = v1.placeholder_with_default(False, [], "has_ended")
                self._saves = v1.placeholder_with_default(False, [], "saves")
                self._share = v1.placeholder(tf.float64, [], "share")
                self._new_step = v1.placeholder(tf.int64, [], "step")
                numbers = (self._rows, self._wish, self._has_ended, self._saves, global_step)
                report = tf.stack([tf.cast(each, tf.float64) for each in numbers])
                self._reports = self.group.of_each(report)
            exchanged = self._exchange(weights, outer)
            with v1.control_dependencies(exchanged), v1.device(CPU):
                self._meet = v1.group(
                    self._rows.assign(0, read_value=False),
                    v1.assign(global_step, tf.cast(self._new_step, global_step.dtype.base_dtype)),
                    bytes_sent.assign_add(self.group.bytes_sent - sent_before, read_value=False),
                )
        v1.add_to_collection(OPTIONAL_STATE, _RoundState(tuple(self._own)))
        self.variables += [*weights, *outer.variables, global_step]

    def meet(self, session: v1.Session, wish: int, has_ended: bool, saves: bool) -> Report:
        """Takes part in a round. All workers must call it for the same round.

        Nothing changes if no worker has made a step since the last round.

        Args:
          session: Session of this worker.
          wish: Wish of this worker to stop, 0 for none.
          has_ended: True if this worker makes no more steps.
          saves: True if this worker saves the variables after the round.
        """
        own = {self._wish: wish, self._has_ended: has_ended, self._saves: saves}
        rows, wishes, ended, saving, steps = session.run(self._reports, own).T
        step = int(steps.max())
        if rows.sum() > 0:
            share = rows[self.group.rank] / rows.sum()
            session.run(self._meet, {self._share: share, self._new_step: step})
        return Report(step, wishes.tolist(), [bool(each) for each in ended], bool(saving[0]))

    def _exchange(self, weights: Sequence[Variable], outer: OuterStep) -> list[Operation]:
        """Returns the operations that make variables equal on all workers."""
        centers = [_center(weight) for weight in weights]
        statistics = batch_statistics()
        averaged = [each for each in statistics if each.dtype.is_floating]
        others = [each for each in statistics if not each.dtype.is_floating]
        changes = [_difference(*pair) for pair in zip(centers, weights, strict=True)]
        means = self._means([each.read_value() for each in averaged])
        moved = outer.apply(centers, self._mean_changes(changes, weights))
        with v1.control_dependencies([moved]):
            values = [center.read_value() for center in centers]
        with v1.device(CPU):
            of_chief = [self.group.broadcast(each.read_value()) for each in others]
        values += [*means, *of_chief]
        self.variables += [*averaged, *others]
        return [
            v1.assign(variable, value).op
            for variable, value in zip([*weights, *averaged, *others], values, strict=True)
        ]

    def _mean_changes(self, changes: Sequence[Tensor], weights: Sequence[Variable]) -> list[Tensor]:
        """Returns means of changes, with rests of earlier rounds if few bits are sent."""
        settings = self.group.settings
        if settings.bits == 32:
            return self._means(changes)
        rests = [self._rest(weight) for weight in weights]
        parts = []
        for change, rest in zip(changes, rests, strict=True):
            with v1.device(rest.device):
                parts.append(self._weighted(tf.cast(change, tf.float32)) + rest.read_value())
        means: list[Tensor] = [None] * len(parts)
        for pack in packs_of(parts, settings.pack_bytes):
            total, left = compressed_sum(pack.flat, self.group, Code(settings.bits))
            lefts = pack.split(left)
            for place, mean, lost in zip(pack.places, pack.split(total), lefts, strict=True):
                with v1.control_dependencies([v1.assign(rests[place], lost).op]):
                    means[place] = tf.identity(mean)
        return means

    def _means(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns means over all workers, weighted by their rows since the last round."""
        pack_bytes = self.group.settings.pack_bytes
        return sent_in_packs(tensors, pack_bytes, lambda each: self.group.sum(self._weighted(each)))

    def _weighted(self, values: Tensor) -> Tensor:
        """Returns this worker's part of a mean. The values of one without weight may be NaN."""
        return tf.math.multiply_no_nan(values, tf.cast(self._share, values.dtype))

    def _rest(self, weight: Variable) -> Variable:
        with v1.device(weight.device):
            return self._state(f"outer/{weight.op.name}/rest", tf.zeros(weight.shape))

    def _state(self, name: str, value: Any) -> Variable:
        """Makes a variable of this worker's own that is saved."""
        variable = _made(name, value, v1.GraphKeys.GLOBAL_VARIABLES)
        self._own.append(variable)
        return variable


@final
class _RoundState(NamedTuple):
    """Variables that a checkpoint may lack, such as one of sums in every step.

    Attributes:
      kept: The variables.
    """

    kept: tuple[Variable, ...]

    def get_name(self) -> str:
        """Returns the name of the state, for messages."""
        return "AllReduce(every=…)"

    def variables(self) -> list[Variable]:
        """Returns the variables."""
        return list(self.kept)


def _weights() -> list[Variable]:
    """Returns the trainable floating-point variables of the default graph."""
    shared = {each.ref() for each in v1.global_variables()}
    trained = [each for each in v1.trainable_variables() if each.dtype.is_floating]
    weights = [each for each in trained if each.ref() in shared]
    if not weights:
        raise ValueError(
            "Cannot train with AllReduce(every=…): model_fn has made no trainable floating-point "
            "variable, so that the workers have nothing to average."
        )
    return weights


def _center(weight: Variable) -> Variable:
    """Makes the local variable that holds the value of a weight at the start of a round."""
    with v1.device(weight.device):
        return _local(f"outer/{weight.op.name}", weight.read_value)


def _difference(center: Variable, weight: Variable) -> Tensor:
    """Returns the center minus the weight; of 16-bit floats, in 32 bits."""
    dtype = weight.dtype.base_dtype
    dtype = tf.float32 if dtype.size < tf.float32.size else dtype
    with v1.device(weight.device):
        return tf.cast(center.read_value(), dtype) - tf.cast(weight.read_value(), dtype)


def _local(name: str, value: Any) -> Variable:
    return _made(name, value, v1.GraphKeys.LOCAL_VARIABLES)


def _made(name: str, value: Any, collection: str) -> Variable:
    with v1.control_dependencies(None), v1.name_scope(None):
        return v1.Variable(
            value,
            trainable=False,
            collections=[collection],
            use_resource=True,
            name=name,
        )
