"""Rounds of averaging: all workers contribute, the chief takes the mean, all workers copy it.

A worker contributes its local weights to one `WorkerMean` per weight and then counts itself as
present. When all workers are present, the chief assigns the means to the centers, or lets the outer
optimizer make a step towards them (`replicate.outer_step`). It increments the global step, and
opens the next round, which wakes the others. Then all workers copy the centers. A
worker whose round has ended by the time it comes contributes nothing and only copies.

`optimizer.py` decides when a round takes place. `hook.py` handles workers that start, end, or get
lost.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.graph_ops.conditional import run_if
from replicate.model_average.getter import AveragedVariable
from replicate.model_average.round_state import (
    CHIEF_ENDED,
    JOINED,
    LEFT,
    UNSEEN_DROPPED,
    WAITING_ROUND,
    RoundState,
    worker_key,
)
from replicate.outer_step import OuterStep

v1 = tf.compat.v1

_LAST_ROUND = tf.int64.max


class WorkerMean:
    """The mean of the workers' contributions to a round."""

    def __init__(self, name: str, shape: Any, dtype: tf.DType, device: str):
        """Creates the accumulator, or finds that of another worker.

        Args:
          name: Name of the accumulator, equal in all workers.
          shape: Static shape of a contribution.
          dtype: Type of a contribution. 16-bit floats are summed as float32.
          device: Device of a parameter server.
        """
        self._dtype = dtype if dtype == tf.float64 else tf.float32
        self._shape = shape
        self._device = device
        with v1.device(device):
            self._accumulator = v1.ConditionalAccumulator(
                self._dtype, shape, name="accumulator", shared_name=name
            )

    def add(self, value: Tensor, round_number: Tensor) -> Operation:
        """Returns the operation that adds a contribution to a round."""
        value = tf.cast(value, self._dtype)
        with v1.device(self._device):
            return self._accumulator.apply_grad(value, local_step=round_number)

    def take(self, count: Tensor | int, round_number: Tensor) -> Tensor:
        """Waits for `count` contributions to a round, returns their mean, and drops later ones."""
        with v1.device(self._device):
            mean = self._accumulator.take_grad(count)
            with v1.control_dependencies([mean]):
                closed = self._accumulator.set_global_step(round_number + 1)
            with v1.control_dependencies([closed]):
                return tf.identity(mean)

    def discard(self, round_number: Tensor) -> Operation:
        """Returns the operation that drops all contributions to this round and earlier ones."""
        with v1.device(self._device):
            nothing = tf.zeros(self._shape, self._dtype)
            last = self._accumulator.apply_grad(nothing, local_step=_LAST_ROUND)
            with v1.control_dependencies([last]):
                return self.take(1, round_number).op


_NONE_YET = -1


class Rounds:
    """Operations of one worker in the rounds of one optimizer.

    The state is shared by all workers; `worker` is the key of this worker's entry in it.
    """

    def __init__(
        self,
        name: str,
        weights: Sequence[AveragedVariable],
        global_step: Variable,
        num_worker: int,
        is_chief: bool,
        outer: OuterStep | None = None,
    ):
        """Makes the shared state and means, and the counter of this worker's round.

        The name is unique and equal in all workers. `num_worker` includes the chief. Without an
        outer step the means replace the centers.
        """
        device = weights[0].getter.worker_device
        self.is_chief = is_chief
        self.num_worker = num_worker
        self.worker = worker_key(device)
        self.state = RoundState(name, global_step.device)
        self._weights = weights
        self._outer = outer
        self._global_step = global_step
        self._present = WorkerMean(f"{name}/present", (), tf.float32, global_step.device)
        self._means = [
            WorkerMean(f"{name}/mean/{local.op.name}", center.shape, center.dtype, center.device)
            for local, center, _ in weights
        ]
        with v1.device(device):
            self._joined_round = local_counter("ticket", _NONE_YET)

    def run_round(self) -> Operation:
        """Returns the operation that runs one round, after the active control dependencies."""
        return self._chief_round() if self.is_chief else self._worker_round()

    def copy_centers(self) -> Operation:
        """Returns the operation that copies the centers to the local weights."""
        round_number = self.state.round_number()
        with v1.control_dependencies([round_number]):
            copies = [_assign(local, _read(center)) for local, center, _ in self._weights]
        with v1.control_dependencies(copies):
            return _assign(self._joined_round, round_number)

    def restart_round(self) -> Operation:
        """Returns the chief's operation that drops the open round and opens the next one.

        Waiting workers wake up and are late for their round.
        """
        round_number = self.state.round_number()
        discarded = [mean.discard(round_number) for mean in (self._present, *self._means)]
        with v1.control_dependencies(discarded):
            reset = [self.state.write(key, 0) for key in (CHIEF_ENDED, UNSEEN_DROPPED)]
            reset.append(self.state.write(WAITING_ROUND, _NONE_YET))
        with v1.control_dependencies(reset):
            return self._open_next_round(round_number)

    def leave(self, has_trained: Tensor) -> Operation:
        """Returns the operation with which this worker leaves. It does not wait for others.

        Local steps since the last round, if it `has_trained`, become part of the open round.
        """
        round_number = self.state.round_number()
        if self.is_chief:
            return self._chief_leave(round_number, has_trained)
        on_time = self._is_on_time(round_number)
        is_first = tf.not_equal(self.state.read(self.worker), round_number)
        contributes = tf.logical_and(has_trained, tf.logical_and(on_time, is_first))
        with v1.control_dependencies([run_if(contributes, lambda: self._contribute(round_number))]):
            left = self.state.write(self.worker, LEFT)
        with v1.control_dependencies([left, is_first]):
            chief_waits = tf.equal(self.state.read(WAITING_ROUND), round_number)
        return run_if(tf.logical_and(chief_waits, is_first), lambda: self.add_present(round_number))

    def add_present(self, round_number: Tensor) -> Operation:
        """Returns the operation that counts one worker as present in a round."""
        return self._present.add(tf.ones([]), round_number)

    def _chief_round(self) -> Operation:
        round_number = self.state.round_number()
        with v1.control_dependencies([self._contribute(round_number)]):
            waiting = self.state.write(WAITING_ROUND, round_number)
        with v1.control_dependencies([waiting]):
            expected = self.state.expected_workers(self.num_worker)
        with v1.control_dependencies([self.add_present(round_number)]):
            complete = self._present.take(expected, round_number)
        with v1.control_dependencies([complete]):
            averaged = self._average(round_number)
        with v1.control_dependencies([averaged]):
            return self.copy_centers()

    def _worker_round(self) -> Operation:
        round_number = self.state.round_number()
        on_time = self._is_on_time(round_number)
        is_first = tf.not_equal(self.state.read(self.worker), round_number)

        def contribute() -> Operation:
            with v1.control_dependencies([self._contribute(round_number)]):
                return self.add_present(round_number)

        offered = run_if(tf.logical_and(on_time, is_first), contribute)
        with v1.control_dependencies([offered]):
            waited = run_if(tf.identity(on_time), lambda: self.state.wait(round_number))
        with v1.control_dependencies([waited]):
            ended = run_if(tf.equal(self.state.read(CHIEF_ENDED), 1), _end_of_input)
            is_late = tf.logical_not(on_time)
            back = run_if(is_late, lambda: self.state.write(self.worker, JOINED))
        with v1.control_dependencies([ended, back]):
            return self.copy_centers()

    def _is_on_time(self, round_number: Tensor) -> Tensor:
        """Returns True if the local weights belong to the open round, bool []."""
        own_round = _read(self._joined_round)
        has_not_ended = tf.not_equal(self.state.read(CHIEF_ENDED), 1)
        return tf.logical_and(
            has_not_ended,
            tf.logical_or(tf.equal(own_round, round_number), tf.equal(own_round, _NONE_YET)),
        )

    def _contribute(self, round_number: Tensor) -> Operation:
        """Adds the local weights to the means of a round, and records that in the state."""
        added = [
            mean.add(_read(local), round_number)
            for mean, (local, _, _) in zip(self._means, self._weights, strict=True)
        ]
        with v1.control_dependencies(added):
            return self.state.write(self.worker, round_number)

    def _average(self, round_number: Tensor) -> Operation:
        """Moves the centers by the means of all contributions, and opens the next round."""
        means = [mean.take(1, round_number) for mean in self._means]
        with v1.control_dependencies(self._moved(means)), v1.device(self._global_step.device):
            counted = v1.assign_add(self._global_step, 1, use_locking=True).op
        with v1.control_dependencies([counted]):
            return self._open_next_round(round_number)

    def _moved(self, means: Sequence[Tensor]) -> list[Operation]:
        """Returns the operations that move the centers to the means, or by an outer step."""
        centers = [center for _, center, _ in self._weights]
        if self._outer is None:
            return [_assign(*pair) for pair in zip(centers, means, strict=True)]
        changes = []
        for center, mean in zip(centers, means, strict=True):
            with v1.device(center.device):
                changes.append(tf.cast(center.read_value(), mean.dtype) - mean)
        return [self._outer.apply(centers, changes)]

    def _open_next_round(self, round_number: Tensor) -> Operation:
        with v1.control_dependencies([self.state.open_round(round_number + 1)]):
            return self.state.wake(round_number, self.num_worker)

    def _chief_leave(self, round_number: Tensor, has_trained: Tensor) -> Operation:
        """Averages the contributions so far and marks the chief as ended."""

        def last_round() -> Operation:
            contributed = [self._contribute(round_number), self.add_present(round_number)]
            with v1.control_dependencies(contributed):
                taken = self._present.take(1, round_number)
            with v1.control_dependencies([taken]):
                return self._average(round_number)

        with v1.control_dependencies([run_if(has_trained, last_round)]):
            ended = self.state.write(CHIEF_ENDED, 1)
        with v1.control_dependencies([ended]):
            return self._open_next_round(self.state.round_number())


def local_counter(name: str, first: int) -> Variable:
    """Makes an int64 variable [] that only this worker has."""
    return v1.Variable(
        lambda: tf.constant(first, tf.int64),
        trainable=False,
        collections=[v1.GraphKeys.LOCAL_VARIABLES],
        name=name,
        use_resource=True,
    )


def _read(variable: Variable) -> Tensor:
    with v1.device(variable.device):
        return variable.read_value()


def _assign(variable: Variable, value: Tensor) -> Operation:
    with v1.device(variable.device):
        return v1.assign(variable, tf.cast(value, variable.dtype.base_dtype), use_locking=True).op


def _end_of_input() -> Operation:
    """Returns an operation that raises OutOfRangeError, as a step at the end of input does."""
    nothing = tf.data.Dataset.from_tensors(0).take(0)
    return v1.data.make_one_shot_iterator(nothing).get_next().op
