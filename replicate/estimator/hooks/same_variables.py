"""Check that all workers without parameter servers have the same variables."""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from replicate._types import Variable
from replicate.all_reduce.checksum import ChecksumComparison
from replicate.all_reduce.group import WorkerGroup
from replicate.errors import WorkersDifferError
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1


@final
class SameVariablesHook(ScheduledHook):
    """Compares the variables of all workers from time to time.

    Every worker has this hook, and its schedule follows from the step alone: the comparison needs
    all workers at once.
    """

    def __init__(
        self,
        group: WorkerGroup,
        readings: StepReadings,
        variables: Sequence[Variable] | None = None,
    ):
        """Stores the parts. The hook compares these variables; None for all."""
        self._group = group
        self._variables = variables
        self._readings = readings
        self._comparison: ChecksumComparison | None = None
        self._next = NextRun()

    def next_run(self) -> NextRun:
        """Returns the step of the next check."""
        return self._next

    def begin(self) -> None:
        """Adds the operations, when all variables are there."""
        self._comparison = ChecksumComparison(self._group, self._variables)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Plans the first check."""
        del session, coord
        self._plan()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares, if it is time.

        Raises:
          WorkersDifferError: Workers have different variables.
        """
        del run_values
        self.compare(run_context.session)

    def compare(self, session: v1.Session) -> None:
        """Compares, if the step of the next check is reached.

        Raises:
          WorkersDifferError: Workers have different variables.
        """
        step = self._readings.step
        if self._comparison is None or step < self._next.step:
            return
        self._plan()
        differences = self._comparison.differences(session)
        if differences:
            raise WorkersDifferError(
                f"At step {step} workers have other variables than {self._group.names[0]}: "
                f"{'; '.join(differences)}. Look for code that changes variables on one worker "
                "only, or depends on the rank. Training continues from the newest checkpoint if it "
                "is started again."
            )

    def _plan(self) -> None:
        every = self._group.settings.check_every
        self._next = NextRun(step=(self._readings.step // every + 1) * every)
