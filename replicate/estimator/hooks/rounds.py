"""RoundsHook: brings workers that train apart together, every so many steps and at the end."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow as tf

from replicate.all_reduce.worker_rounds import Report, WorkerRounds
from replicate.estimator.checkpoints.worker_state import WorkerState
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.same_variables import SameVariablesHook
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.hooks.step_loop import StopAgreement

v1 = tf.compat.v1


@final
class RoundsHook(ScheduledHook):
    """Makes the rounds of each step that has some, see `replicate.all_reduce.fragments.Schedule`.

    Every worker has this hook, before those that save or read the variables. A worker whose input
    has ended makes no more steps, and takes part in the rounds of the others without weight.
    """

    def __init__(
        self,
        rounds: WorkerRounds,
        readings: StepReadings,
        agreement: StopAgreement,
        check: SameVariablesHook | None,
        is_interrupted: Callable[[], bool],
        beat: Callable[[], None],
        is_done: Callable[[], bool] = bool,
        is_save_due: Callable[[], bool] = bool,
        state: WorkerState | None = None,
        followers: Sequence[ScheduledHook] = (),
    ):
        """Stores the parts.

        `check`, which nobody else calls, compares the variables in rounds. `is_interrupted` tells
        of a signal, and `beat` is called before each wait for the others. `is_done` tells if the
        last step was made. In the chief, `is_save_due` tells if a checkpoint is to be saved; other
        workers then save their `state`. `followers` run also after the rounds in which this worker,
        whose input has ended, waits for the others.
        """
        self._rounds = rounds
        self._readings = readings
        self._agreement = agreement
        self._check = check
        self._is_interrupted = is_interrupted
        self._beat = beat
        self._is_done = is_done
        self._is_save_due = is_save_due
        self._state = state
        self._followers = followers
        self._session: v1.Session = None
        self._last_step = 0
        self._report: Report | None = None

    @property
    def allows_save(self) -> bool:
        """True right after a round in which the chief has announced a save."""
        return not self._is_between_rounds and self._report is not None and self._report.saves

    @property
    def are_equal(self) -> bool:
        """True right after a round in which all workers have got the same values of all weights."""
        return not self._is_between_rounds and self._rounds.are_equal

    @property
    def can_hand_over(self) -> bool:
        """True if others could go on with the variables that this worker has after this step."""
        return self.are_equal or self._rounds.is_complete

    @property
    def _is_between_rounds(self) -> bool:
        """True if this worker has made steps since the last round."""
        return self._readings.step != self._last_step

    def next_run(self) -> NextRun:
        """Returns the step of the next round, or of the end of a delay."""
        return NextRun(step=self._rounds.next_step)

    def begin(self) -> None:
        """Adds the operations of the check."""
        if self._check is not None:
            self._check.begin()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Goes on where all workers are."""
        self._session = session
        self._rounds.start(session)
        self._last_step = self._readings.step
        if self._check is not None:
            self._check.after_create_session(session, coord)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Makes a round, or takes the sums of one, if it is time.

        Raises:
          WorkersDifferError: Workers have different variables after it.
        """
        del run_context, run_values
        step = self._readings.step
        if self._rounds.is_due(step):
            self._meet(has_ended=self._is_done())
        elif self.next_run().step <= step:
            self._beat()
            self._rounds.take(self._session, step)

    @contextlib.contextmanager
    def at_the_end(
        self, errors: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> Iterator[None]:
        """Makes the last rounds when the steps inside of the context have ended.

        Args:
          errors: Returns a context that surrounds the rounds.

        Raises:
          OutOfRangeError: The input has ended.
          WorkersDifferError: Workers have different variables.
        """
        try:
            yield
        except (tf.errors.OutOfRangeError, StopIteration):
            with errors():
                self._meet_until_the_end(has_input=False)
            raise
        with errors():
            self._meet_until_the_end(has_input=True)

    def _meet_until_the_end(self, has_input: bool) -> None:
        """Meets the others until none makes more steps, or all have agreed to stop.

        Workers that all make their last step in a round know that there is no other.
        """
        report = self._report
        if has_input and self.are_equal and not (report and any(report.ended)):
            return
        while not (self._agreement.is_reached or (self._report and all(self._report.ended))):
            if self._is_interrupted():
                self._agreement.ask(self._session, has_signal=True)
            self._meet(has_ended=True)
            context = v1.train.SessionRunContext(None, self._session)
            for hook in self._followers:
                hook.after_run(context, None)
            if context.stop_requested:
                self._agreement.ask(self._session, has_signal=False)

    def _meet(self, has_ended: bool) -> None:
        self._beat()
        wish, saves = self._agreement.wish, self._is_save_due()
        report = self._rounds.report(self._session, wish, has_ended, saves)
        self._readings.wishes = report.wishes
        # After a signal all go on later, as if nothing had been.
        is_asked = self._agreement.is_reached and not self._agreement.is_by_signal
        self._rounds.exchange(self._session, report, all(report.ended) or is_asked)
        self._report = report
        self._readings.step = self._last_step = report.step
        if self._state is not None and (report.saves or any(report.wishes)):
            self._state.save(self._session, report.step)
        if self._check is not None:
            self._check.compare(self._session)
