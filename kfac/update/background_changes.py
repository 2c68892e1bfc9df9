"""Changes of variables that a thread of the session computes, and a later step makes.

The thread is TensorFlow's: a queue runner, which a monitored session starts, and that of an
Estimator, too. It waits for a request, computes, and puts the results into a queue. The step that
takes them waits for them. Without a thread, or for a request from before the session, that step
computes them itself: which of the two it was changes no number. Called by
`kfac.update.delayed_inverses`.
"""

import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import Operation, Tensor
from kfac.state import CPU, Assignment, Change, assign_all, make_transient, read, run_if, value_if

v1 = tf.compat.v1


@typing.final
class BackgroundChanges:
    """Changes that are computed beside the steps between a request and the use of its results."""

    def __init__(self, name: str, compute: Callable[[], Sequence[Change]]) -> None:
        """Makes the queues, and the thread's part of the graph.

        Args:
          name: Name scope of the thread's operations, which errors of the thread show.
          compute: Returns the changes, whose shapes are those of their variables. Called once here,
            and for each use of the results. What it reads must not change between a request and
            the use of its results.
        """
        self._compute = compute
        # Not after the gradients, nor in a branch: the thread runs these operations by themselves.
        with tf.init_scope(), v1.name_scope(name):
            with v1.device(CPU):
                self._requested = make_transient("requested", tf.int64)
                self._has_thread = make_transient("has_thread", tf.bool)
                self._requests = v1.FIFOQueue(1, [tf.int64], [[]], name="requests")
                with v1.control_dependencies([self._has_thread.assign(True, read_value=False)]):
                    request = self._requests.dequeue()
            with v1.control_dependencies([request]):
                self._changes = tuple(compute())
            with v1.device(CPU):
                self._results = _queue_of(self._changes)
                work = self._results.enqueue([request, *_values(self._changes)])
                v1.add_to_collection(v1.GraphKeys.QUEUE_RUNNERS, self._runner(work))

    def _runner(self, work: Operation) -> v1.train.QueueRunner:
        """Returns the thread, which ends when one of the queues is closed."""
        queues = self._requests, self._results
        return v1.train.QueueRunner(
            self._results,
            [work],
            cancel_op=v1.group(*(queue.close(cancel_pending_enqueues=True) for queue in queues)),
            queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
        )

    def request(self, number: Tensor, is_wanted: Tensor) -> Operation:
        """Returns an op that lets the thread compute, if there is one and it does not already.

        Each request has another number, int64 []. Does nothing unless `is_wanted`, bool [].
        """

        def send() -> Operation:
            with v1.control_dependencies([self._requests.enqueue(number)]):
                return assign_all([Assignment(self._requested, number)])

        with v1.device(CPU):
            has_thread = self._has_thread.is_initialized()
            is_new = tf.logical_not(self._is_requested(number))
            return run_if(tf.logical_and(is_wanted, tf.logical_and(has_thread, is_new)), send)

    def results(self, number: Tensor) -> list[Change]:
        """Returns the changes that a request of this number asked for, or that it should have.

        To be called where the operations run once for each number.
        """

        def compute() -> Operation:
            values = _values(self._compute())
            with v1.device(CPU):
                return self._results.enqueue([number, *values])

        done = run_if(tf.logical_not(self._is_requested(number)), compute)
        with v1.control_dependencies([done]), v1.device(CPU):
            _, *values = tf.nest.flatten([self._results.dequeue()])
        changes = []
        for change, value in zip(self._changes, values, strict=True):
            with v1.device(change.value.device):
                changes.append(change._replace(value=tf.identity(value)))
        return changes

    def _is_requested(self, number: Tensor) -> Tensor:
        requested = self._requested
        with v1.device(CPU):
            return value_if(
                requested.is_initialized(),
                lambda: tf.equal(read(requested), number),
                tf.constant(False),
            )


def _queue_of(changes: Sequence[Change]) -> v1.FIFOQueue:
    """Makes a queue of one element: the number of a request, and the values of changes."""
    variables = [change.variable for change in changes]
    dtypes = [tf.int64, *(variable.dtype.base_dtype for variable in variables)]
    return v1.FIFOQueue(
        1, dtypes, [[], *(variable.shape for variable in variables)], name="results"
    )


def _values(changes: Sequence[Change]) -> list[Tensor]:
    return [tf.ensure_shape(change.value, change.variable.shape) for change in changes]
