"""Rounds of averaging: everybody contributes, the chief takes the mean, everybody takes it over.

Owns the graph of a round, in two forms: the chief's and that of the other workers. Each contributes
its local weights to a mean per weight (`mean.py`), and says that it is there. When all are there
the chief makes the means the new centers, increments the global step and opens the next round,
which wakes the others; then all copy the centers. A worker whose round is over by the time it comes
contributes nothing, and copies.

When a round takes place is decided in `optimizer.py`; what happens when a worker starts, ends or is
lost, in `hook.py`.
"""

from collections.abc import Sequence

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.conditional import only_if
from replicate.model_average.round_state import ENDED, EXCUSED, JOINED, LED, LEFT, Board, worker_key
from replicate.model_average.getter import Averaged
from replicate.model_average.mean import WorkerMean

v1 = tf.compat.v1

_NONE_YET = -1


class Rounds:
    """One worker's part in the rounds of one optimizer.

    Attributes:
      board: What the workers tell each other.
      is_chief: Whether this worker leads.
      num_worker: How many there are.
      worker: Key of this worker on the board.
    """

    def __init__(
        self,
        name: str,
        weights: Sequence[Averaged],
        global_step: Variable,
        num_worker: int,
        is_chief: bool,
    ):
        """Makes what the workers share, and this worker's note of the round that it is in.

        Args:
          name: Of the optimizer, equal in all workers and no other's.
          weights: What is averaged, at least one.
          global_step: Counts the averagings.
          num_worker: How many workers there are, the chief included.
          is_chief: Whether this is the chief.
        """
        device = weights[0].getter.worker_device
        self.is_chief = is_chief
        self.num_worker = num_worker
        self.worker = worker_key(device)
        self.board = Board(name, global_step.device)
        self._weights = weights
        self._global_step = global_step
        self._present = WorkerMean(f"{name}/present", (), tf.float32, global_step.device)
        self._means = [
            WorkerMean(f"{name}/mean/{local.op.name}", center.shape, center.dtype, center.device)
            for local, center, _ in weights
        ]
        with v1.device(device):
            self._held = local_counter("ticket", _NONE_YET)

    def take_part(self) -> Operation:
        """Returns the operation that makes one round, after the active control dependencies."""
        return self._lead() if self.is_chief else self._follow()

    def copy_centers(self) -> Operation:
        """Returns the operation that copies the centers to the local weights."""
        ticket = self.board.ticket()
        with v1.control_dependencies([ticket]):
            copies = [_assign(local, _read(center)) for local, center, _ in self._weights]
        with v1.control_dependencies(copies):
            return _assign(self._held, ticket)

    def begin_anew(self) -> Operation:
        """Returns the chief's operation that drops the open round and opens the next one.

        Those who wait wake up, and find themselves late.
        """
        ticket = self.board.ticket()
        discarded = [mean.discard(ticket) for mean in (self._present, *self._means)]
        with v1.control_dependencies(discarded):
            noted = [self.board.write(key, 0) for key in (ENDED, EXCUSED)]
            noted.append(self.board.write(LED, _NONE_YET))
        with v1.control_dependencies(noted):
            return self._open_next(ticket)

    def leave(self, has_trained: Tensor) -> Operation:
        """Returns the operation with which this worker leaves; it waits for nobody.

        Args:
          has_trained: Boolean scalar: whether there were local steps since the last round. They
            become part of this one.
        """
        ticket = self.board.ticket()
        if self.is_chief:
            return self._end(ticket, has_trained)
        on_time = self._is_on_time(ticket)
        is_first = tf.not_equal(self.board.read(self.worker), ticket)
        contributes = tf.logical_and(has_trained, tf.logical_and(on_time, is_first))
        with v1.control_dependencies([only_if(contributes, lambda: self._contribute(ticket))]):
            left = self.board.write(self.worker, LEFT)
        with v1.control_dependencies([left, is_first]):
            is_led = tf.equal(self.board.read(LED), ticket)
        return only_if(tf.logical_and(is_led, is_first), lambda: self.be_present(ticket))

    def be_present(self, ticket: Tensor) -> Operation:
        """Returns the operation by which the chief waits for one worker less in a round."""
        return self._present.add(tf.ones([]), ticket)

    def _lead(self) -> Operation:
        ticket = self.board.ticket()
        with v1.control_dependencies([self._contribute(ticket)]):
            led = self.board.write(LED, ticket)
        with v1.control_dependencies([led]):
            expected = self.board.expected(self.num_worker)
        with v1.control_dependencies([self.be_present(ticket)]):
            complete = self._present.take(expected, ticket)
        with v1.control_dependencies([complete]):
            averaged = self._average(ticket)
        with v1.control_dependencies([averaged]):
            return self.copy_centers()

    def _follow(self) -> Operation:
        ticket = self.board.ticket()
        on_time = self._is_on_time(ticket)
        is_first = tf.not_equal(self.board.read(self.worker), ticket)

        def contribute() -> Operation:
            with v1.control_dependencies([self._contribute(ticket)]):
                return self.be_present(ticket)

        offered = only_if(tf.logical_and(on_time, is_first), contribute)
        with v1.control_dependencies([offered]):
            waited = only_if(tf.identity(on_time), lambda: self.board.wait(ticket))
        with v1.control_dependencies([waited]):
            ended = only_if(tf.equal(self.board.read(ENDED), 1), _end_of_input)
            is_late = tf.logical_not(on_time)
            back = only_if(is_late, lambda: self.board.write(self.worker, JOINED))
        with v1.control_dependencies([ended, back]):
            return self.copy_centers()

    def _is_on_time(self, ticket: Tensor) -> Tensor:
        """Whether the open round is the one that the local weights began with, bool []."""
        held = _read(self._held)
        has_not_ended = tf.not_equal(self.board.read(ENDED), 1)
        return tf.logical_and(
            has_not_ended, tf.logical_or(tf.equal(held, ticket), tf.equal(held, _NONE_YET))
        )

    def _contribute(self, ticket: Tensor) -> Operation:
        """Contributes the local weights to a round, and notes that."""
        added = [
            mean.add(_read(local), ticket)
            for mean, (local, _, _) in zip(self._means, self._weights, strict=True)
        ]
        with v1.control_dependencies(added):
            return self.board.write(self.worker, ticket)

    def _average(self, ticket: Tensor) -> Operation:
        """Makes the means of what is there the centers, and opens the next round."""
        assigned = [
            _assign(center, mean.take(1, ticket))
            for mean, (_, center, _) in zip(self._means, self._weights, strict=True)
        ]
        with v1.control_dependencies(assigned), v1.device(self._global_step.device):
            counted = v1.assign_add(self._global_step, 1, use_locking=True).op
        with v1.control_dependencies([counted]):
            return self._open_next(ticket)

    def _open_next(self, ticket: Tensor) -> Operation:
        with v1.control_dependencies([self.board.open(ticket + 1)]):
            return self.board.wake(ticket, self.num_worker)

    def _end(self, ticket: Tensor, has_trained: Tensor) -> Operation:
        """The chief's leave: what it and others have contributed so far is averaged."""

        def last_round() -> Operation:
            contributed = [self._contribute(ticket), self.be_present(ticket)]
            with v1.control_dependencies(contributed):
                taken = self._present.take(1, ticket)
            with v1.control_dependencies([taken]):
                return self._average(ticket)

        with v1.control_dependencies([only_if(has_trained, last_round)]):
            ended = self.board.write(ENDED, 1)
        with v1.control_dependencies([ended]):
            return self._open_next(self.board.ticket())


def local_counter(name: str, first: int) -> Variable:
    """Makes an int64 variable [] of this worker alone."""
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
    """Fails as a step does when the input has ended: with an OutOfRangeError."""
    nothing = tf.data.Dataset.from_tensors(0).take(0)
    return v1.data.make_one_shot_iterator(nothing).get_next().op
