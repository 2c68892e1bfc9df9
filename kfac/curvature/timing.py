"""Durations of the phases of a step, in seconds of wall time.

A phase is timed by two readings of the clock in the graph, on the same machine. The first waits for
everything that the phase waits for, the second waits for the phase. The duration is kept in a
variable of no collection, which is neither saved nor initialized, so it has no value until the
phase has run. With op determinism no op may read a clock, and phases have no durations: turn op
determinism on before the optimizer is made. The estimator and the optimizer define where phases
begin and end.
"""

import functools
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.state import CPU, make_transient, read, value_if
from kfac.xla import is_compiled

v1 = tf.compat.v1

PHASES = ("covariance", "inverse", "apply")
"""Update of averages without the forward pass, update of inverses, and the step itself."""


@typing.final
class PhaseTimes:
    """The last duration of each phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, Variable] = {}
        self._now = tf.timestamp if _may_read_clock() else _unknown

    def begin(self, phase: str, after: Sequence[Any] = ()) -> Tensor:
        """Returns the time at which one of `PHASES` begins; not to be called in a branch.

        The phase waits for the operations and Tensors `after`, besides active control dependencies.
        Some op of the phase must wait for the time returned, or it may be read too late.
        """
        with v1.name_scope("kfac/monitor/"), v1.control_dependencies(after), v1.device(CPU):
            start = self._now()
        if phase not in self._seconds:
            with tf.init_scope(), v1.name_scope(None), v1.device(None), v1.device(start.device):
                self._seconds[phase] = make_transient(f"kfac/{phase}_seconds", tf.float64)
        return start

    def end(self, phase: str, start: Tensor, done: Operation) -> Operation:
        """Returns an op that stores the duration of a phase; may be called in a branch.

        `start` is the result of `begin`, `done` the last operation of the phase.
        """
        variable = self._seconds[phase]
        # Clocks of different machines need not agree.
        with v1.device(None), v1.device(start.device), v1.control_dependencies([done, start]):
            return v1.assign(variable, self._now() - start).op

    def read(self) -> dict[str, Tensor]:
        """Returns the seconds of each phase that has begun in this graph; NaN if it has not run."""
        return {
            phase: value_if(
                variable.is_initialized(), functools.partial(read, variable), _unknown()
            )
            for phase, variable in self._seconds.items()
        }

    def summarize(self) -> None:
        """Adds a summary for each phase that has begun in this graph; empty if it has not run."""
        for phase, seconds in self.read().items():
            summary = v1.summary.scalar(f"{phase}_seconds", seconds, collections=[])
            known = tf.where(tf.math.is_nan(seconds), tf.constant(""), summary)
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, known)


def _may_read_clock() -> bool:
    """Returns True if operations may read a clock: not under `enable_op_determinism`, nor in XLA.

    No public function tells the first, so it is found out by reading one.
    """
    if is_compiled():
        return False
    options = v1.ConfigProto(device_count={"CPU": 1, "GPU": 0})
    with tf.Graph().as_default(), v1.Session(config=options) as session:
        now = tf.timestamp()
        try:
            session.run(now)
        except tf.errors.FailedPreconditionError:
            return False
    return True


def _unknown() -> Tensor:
    return tf.constant(float("nan"), tf.float64)
