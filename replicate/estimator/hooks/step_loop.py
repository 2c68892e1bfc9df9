"""StepLoop: makes steps in a monitored session, and calls the hooks.

Training and evaluation share this loop. It calls a `ScheduledHook` only when the hook asks for it,
and any other hook around every step. `readings.py` reads step and loss, once for all hooks.
`tf.compat.v1.train.MonitoredSession` makes the session, and makes it again when it was lost.

Workers without parameter servers agree on the step after which all of them stop.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import tensorflow as tf

from replicate._types import Variable
from replicate.errors import ClusterError
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1

_A_HOOK, _A_SIGNAL = 1, 2
"""Reasons for which a worker wishes to stop."""


@final
class StopAgreement:
    """Lets a worker ask all workers to stop after their next step, or after their next round.

    A worker that stopped by itself would leave the others waiting for it.

    Attributes:
      wish: Wish of this worker to stop, 0 for none.
    """

    def __init__(self, names: Sequence[str], readings: StepReadings, sent: Variable | None = None):
        """Stores the parts.

        Args:
          names: Names of the workers, by rank.
          readings: Tell the wishes of all workers.
          sent: Variable [] from which each step sends the wish; None if rounds send `wish`.
        """
        self.wish = 0
        self._names = names
        self._readings = readings
        self._set_wish: Any = None
        if sent is not None:
            self._new_wish = v1.placeholder(tf.int64, [])
            self._set_wish = sent.assign(self._new_wish, read_value=False)

    def ask(self, session: v1.Session, has_signal: bool) -> None:
        """Asks the others to stop."""
        wish = _A_SIGNAL if has_signal else _A_HOOK
        if wish > self.wish:
            if self._set_wish is not None:
                session.run(self._set_wish, {self._new_wish: wish})
            self.wish = wish

    @property
    def is_reached(self) -> bool:
        """True if a worker has asked for the end before the last step or round."""
        return any(self._readings.wishes)

    @property
    def is_by_signal(self) -> bool:
        """True if a signal has asked one of the workers to end."""
        return any(wish == _A_SIGNAL for wish in self._readings.wishes)

    def raise_if_by_signal(self) -> None:
        """Ends a worker whose peers were asked to end.

        Raises:
          ClusterError: A signal has asked another worker to end.
        """
        asked = [
            name
            for name, wish in zip(self._names, self._readings.wishes, strict=False)
            if wish == _A_SIGNAL
        ]
        if asked:
            raise ClusterError(
                f"Training stops at step {self._readings.step} because a signal has asked "
                f"{', '.join(asked)} to end. Start all workers again; training continues from the "
                "newest checkpoint."
            )


class StepLoop(v1.train.SessionRunHook):
    """The loop over steps. It is itself a hook of the monitored session that it runs."""

    def __init__(
        self,
        readings: StepReadings,
        hooks: Iterable[Any],
        check: Callable[[], None] | None = None,
        agreement: StopAgreement | None = None,
    ):
        """Stores what runs in each step.

        Scheduled hooks run after the others; `check`, before them, may raise an error. A process
        that trains alone, or whose peers do not wait for it, has no agreement.
        """
        hooks = list(hooks)
        self._readings = readings
        self._scheduled = [hook for hook in hooks if isinstance(hook, ScheduledHook)]
        self._others = [hook for hook in hooks if not isinstance(hook, ScheduledHook)]
        self._check = check
        self._agreement = agreement
        self._next = NextRun()
        self._session: v1.Session = None
        self._coord: v1.train.Coordinator = None
        self._stopped = False

    @property
    def hooks(self) -> list[Any]:
        """Hooks to pass to the monitored session: the unscheduled ones, and this loop.

        The loop ends before the user's hooks, as in tf.estimator: these may look for the checkpoint
        of the last step, or fail. Hooks that give variables their last values `ends_before_save`.
        """
        early = [hook for hook in self._others if getattr(hook, "ends_before_save", False)]
        late = [hook for hook in self._others if hook not in early]
        return [*early, _End(self._scheduled), *late, self]

    @property
    def is_done(self) -> bool:
        """True if a hook says that no step is to be made."""
        return any(hook.is_done for hook in self._scheduled)

    def begin(self) -> None:
        """Begins the readings and the scheduled hooks."""
        self._readings.begin()
        for hook in self._scheduled:
            hook.begin()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Passes a new session to the readings and the scheduled hooks.

        The loop keeps the session: after a loss, a step_context still holds the lost one.
        """
        self._session = session
        self._coord = coord
        self._readings.after_create_session(session)
        for hook in self._scheduled:
            hook.after_create_session(session, coord)
        self._stopped = self.is_done
        self._schedule()

    def run(
        self,
        session: v1.train.MonitoredSession,
        should_stop: Callable[[], bool] = bool,
        error_context: Callable[
            [], contextlib.AbstractContextManager[None]
        ] = contextlib.nullcontext,
    ) -> None:
        """Makes steps until a hook or `should_stop` asks for the end.

        The session has the `hooks` of this loop. `error_context` returns a context that surrounds
        the steps of one session. The error that ends the session passes through it.
        """
        # Queue runners report errors through the coordinator, which a plain run does not ask.
        is_plain = not any(map(_overrides_run_methods, self._others)) and not v1.get_collection(
            v1.GraphKeys.QUEUE_RUNNERS
        )

        def steps(step_context: Any) -> None:
            current = self._session
            with error_context():
                while not self._has_ended(session, should_stop) and self._session is current:
                    # After a request to stop, TensorFlow's session refuses to call the hooks.
                    skips_hooks = is_plain or session.should_stop()
                    self._step(current.run if skips_hooks else step_context.run_with_hooks)

        while not self._has_ended(session, should_stop):
            session.run_step_fn(steps)

    def _has_ended(
        self, session: v1.train.MonitoredSession, should_stop: Callable[[], bool]
    ) -> bool:
        """Returns True if no more step is to be made. Asking a lost session makes a new one.

        Raises:
          Exception: A thread of the session has failed, and other workers wait for this one: they
            shall not take its end for one that all have agreed on.
        """
        has_signal = should_stop()
        wants_end = bool(self._stopped or session.should_stop() or has_signal)
        if self._agreement is None or self.is_done:  # All workers reach the last step together.
            return wants_end
        if wants_end and not self._agreement.is_reached:
            self._coord.raise_requested_exception()
            self._agreement.ask(self._session, has_signal)
        return self._agreement.is_reached

    def _step(self, run: Callable[..., Any]) -> None:
        """Makes one step."""
        readings = self._readings
        if not self._next.is_reached(readings.step + 1):
            readings.take(run(readings.fetch))
            self._finish_step({})
            return
        context = self._context()
        requests = [hook.before_run(context) for hook in self._scheduled]
        fetches = {i: asked.fetches for i, asked in enumerate(requests) if asked is not None}
        options = next((asked.options for asked in requests if asked and asked.options), None)
        metadata = None if options is None else v1.RunMetadata()
        read, results = run((readings.fetch, fetches), options=options, run_metadata=metadata)
        readings.take(read)
        self._finish_step(results, metadata)

    def _finish_step(self, results: dict[int, Any], metadata: v1.RunMetadata | None = None) -> None:
        """Checks a step that was made, and calls the scheduled hooks if one of them is due."""
        if self._check is not None:
            self._check()
        if not (results or self._next.is_reached(self._readings.step)):
            return
        context = self._context()
        for i, hook in enumerate(self._scheduled):
            hook.after_run(context, v1.train.SessionRunValues(results.get(i), None, metadata))
        self._stopped = self._stopped or context.stop_requested
        self._schedule()

    def _context(self) -> Any:
        return v1.train.SessionRunContext(
            v1.train.SessionRunArgs(self._readings.fetch), self._session
        )

    def _schedule(self) -> None:
        """Finds the next run of any scheduled hook."""
        runs = [hook.next_run() for hook in self._scheduled]
        self._next = NextRun(
            min((run.step for run in runs), default=math.inf),
            min((run.time for run in runs), default=math.inf),
        )


@final
class _End(v1.train.SessionRunHook):
    """Ends scheduled hooks, in its place among the others."""

    def __init__(self, hooks: Sequence[ScheduledHook]):
        self._hooks = hooks

    def end(self, session: v1.Session) -> None:
        """Ends the hooks."""
        for hook in self._hooks:
            hook.end(session)


def _overrides_run_methods(hook: v1.train.SessionRunHook) -> bool:
    """Returns True if a hook overrides `before_run` or `after_run`."""
    return any(
        getattr(getattr(hook, name), "__func__", None) is not getattr(v1.train.SessionRunHook, name)
        for name in ("before_run", "after_run")
    )
