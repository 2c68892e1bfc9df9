"""Stepping: makes steps, and calls a hook only where it has something to do.

Owns the loop inside a monitored session, which training and evaluation share. Asking seven hooks
around each step costs more time than a small model's step itself, so the hooks of this package say
when they are due next and are left out until then. Hooks of others are called around every step,
as ever. What a step reads for all of them is in `steps.py`; creating the session, and creating it
anew when it was lost, is the business of `tf.compat.v1.train.MonitoredSession`.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings

v1 = tf.compat.v1


class Due(NamedTuple):
    """When a hook has to be called again: at whichever comes first.

    Attributes:
      step: The step that reaches this number.
      time: The first step after this time of `time.monotonic()`, in seconds.
    """

    step: float = math.inf
    time: float = math.inf


class PatientHook(v1.train.SessionRunHook):
    """A hook that has nothing to do in most steps, and knows when it will have.

    It may be called more often than it asks for, and then does nothing. When it becomes due only by
    the outcome of a step, `after_run` is called without `before_run`, and with no results. It may
    ask for fetches and for options, but it feeds nothing; the options of the first one are taken.
    """

    @property
    def is_done(self) -> bool:
        """Whether a session that was just made need not make any step."""
        return False

    def due(self) -> Due:
        """Returns when the hook has something to do next."""
        raise NotImplementedError


class StopHook(PatientHook):
    """Ends a run at a step, or after a number of steps."""

    def __init__(
        self, readings: StepReadings, num_steps: int | None = None, last_step: int | None = None
    ):
        """Takes one of the two; `num_steps` are counted from where the first session starts."""
        self._readings = readings
        self._num_steps = num_steps
        self._last_step = last_step

    @property
    def is_done(self) -> bool:
        """Whether the last step is reached."""
        return self._last_step is not None and self._readings.step >= self._last_step

    def due(self) -> Due:
        """Returns the last step, if there is one."""
        return Due() if self._last_step is None else Due(step=self._last_step)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Finds out which step is the last one."""
        del session, coord
        if self._last_step is None and self._num_steps is not None:
            self._last_step = self._readings.step + self._num_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops if it is reached."""
        del run_values
        if self.is_done:
            run_context.request_stop()


class Stepper(v1.train.SessionRunHook):
    """Makes steps in a monitored session to which it belongs as a hook."""

    def __init__(
        self,
        readings: StepReadings,
        hooks: Iterable[Any],
        check: Callable[[], None] | None = None,
    ):
        """Takes what is read in each step, and who looks at it.

        Args:
          readings: Of step and loss.
          hooks: Patient ones and others; the patient ones come after the others.
          check: Called after each step, before the patient hooks; it may raise an error.
        """
        hooks = list(hooks)
        self._readings = readings
        self._patient = [hook for hook in hooks if isinstance(hook, PatientHook)]
        self._others = [hook for hook in hooks if not isinstance(hook, PatientHook)]
        self._check = check
        self._next = Due()
        self._session: v1.Session = None
        self._stopped = False

    @property
    def hooks(self) -> list[Any]:
        """The hooks to give to the monitored session, this one included."""
        return [*self._others, self]

    @property
    def is_done(self) -> bool:
        """Whether a hook has nothing left to do, so that no step is to be made."""
        return any(hook.is_done for hook in self._patient)

    def begin(self) -> None:
        """Tells the readings and the patient hooks."""
        self._readings.begin()
        for hook in self._patient:
            hook.begin()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Tells the readings and the patient hooks, and learns when they are due.

        The session is kept for the steps: after a loss, a step_context still holds the lost one.
        """
        self._session = session
        self._readings.after_create_session(session)
        for hook in self._patient:
            hook.after_create_session(session, coord)
        self._stopped = self.is_done
        self._look_ahead()

    def end(self, session: v1.Session) -> None:
        """Tells the patient hooks."""
        for hook in self._patient:
            hook.end(session)

    def run(
        self,
        session: v1.train.MonitoredSession,
        is_over: Callable[[], bool] = bool,
        noting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Makes steps until a hook or `is_over` wants the end.

        Args:
          session: One with the `hooks` of this stepper.
          is_over: Asked before each step.
          noting: Returns a context for the steps of one session, which sees the error that ends it.
        """
        # Queue runners report errors through the coordinator, which a plain run does not ask.
        is_plain = not any(map(_watches_steps, self._others)) and not v1.get_collection(
            v1.GraphKeys.QUEUE_RUNNERS
        )

        def steps(step_context: Any) -> None:
            current = self._session
            run = current.run if is_plain else step_context.run_with_hooks
            with noting():
                while not self._has_ended(session, is_over) and self._session is current:
                    self._step(run)

        while not self._has_ended(session, is_over):
            session.run_step_fn(steps)

    def _has_ended(self, session: v1.train.MonitoredSession, is_over: Callable[[], bool]) -> bool:
        """Whether no step is to be made any more; asking a lost session makes a new one."""
        return bool(self._stopped or session.should_stop() or is_over())

    def _step(self, run: Callable[..., Any]) -> None:
        """Makes one step."""
        readings = self._readings
        if not self._is_due(readings.step + 1):
            readings.take(run(readings.fetch))
            self._finish_step({})
            return
        context = self._context()
        requests = [hook.before_run(context) for hook in self._patient]
        fetches = {i: asked.fetches for i, asked in enumerate(requests) if asked is not None}
        options = next((asked.options for asked in requests if asked and asked.options), None)
        metadata = None if options is None else v1.RunMetadata()
        read, results = run((readings.fetch, fetches), options=options, run_metadata=metadata)
        readings.take(read)
        self._finish_step(results, metadata)

    def _finish_step(self, results: dict[int, Any], metadata: v1.RunMetadata | None = None) -> None:
        """Checks a step that was made, and hands its results to the hooks if one of them is due."""
        if self._check is not None:
            self._check()
        if not (results or self._is_due(self._readings.step)):
            return
        context = self._context()
        for i, hook in enumerate(self._patient):
            hook.after_run(context, v1.train.SessionRunValues(results.get(i), None, metadata))
        self._stopped = self._stopped or context.stop_requested
        self._look_ahead()

    def _context(self) -> Any:
        return v1.train.SessionRunContext(
            v1.train.SessionRunArgs(self._readings.fetch), self._session
        )

    def _is_due(self, step: int) -> bool:
        return step >= self._next.step or time.monotonic() >= self._next.time

    def _look_ahead(self) -> None:
        dues = [hook.due() for hook in self._patient]
        self._next = Due(
            min((due.step for due in dues), default=math.inf),
            min((due.time for due in dues), default=math.inf),
        )


def _watches_steps(hook: v1.train.SessionRunHook) -> bool:
    """Whether a hook has to be called around a step: one of its two methods does something."""
    return any(
        getattr(getattr(hook, name), "__func__", None) is not getattr(v1.train.SessionRunHook, name)
        for name in ("before_run", "after_run")
    )
