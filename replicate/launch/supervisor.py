"""The supervisor: runs the tasks of a cluster until the job is done or has failed.

The rules:

- When the chief is done, the job is done. Workers and parameter servers get some time to exit.
- A failed task ends the job, unless a restart may help (exit code 128 or above, or a signal) and
  the task has restarts left. The pause before a restart doubles each time, and is short again once
  the task has run for some minutes.
- With `min_workers`, equal workers go on without a lost one (`regrouping.py`) while that many are
  left, or may come back.
- A signal to the supervisor is passed on to all tasks. A second one kills them, unless it only says
  that nobody reads the output any more.

A `Backend` starts the processes, a `Display` shows their output.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import final

from replicate.exit_codes import ExitCode
from replicate.launch.backend import Backend, ProcessPlan
from replicate.launch.console import LAUNCHER, Display
from replicate.launch.local_backend import LocalBackend
from replicate.launch.output_streams import OutputStreams
from replicate.launch.plan import ClusterPlan
from replicate.launch.regrouping import Regrouping
from replicate.launch.task_state import FIRST_DELAY_SECS, TaskState

_POLL_SECS = 0.1
_EXIT_SECS = 90.0  # Longer than our parameter servers wait for other workers after the chief.
_LONGEST_GRACE_SECS = 1e9  # Finite, since a time of infinity tells that no task is asked to end.
_SAME_SIGNAL_SECS = 0.5  # The terminal and a parent of the launcher may both send one Ctrl-C.
_CAUSES: dict[int, str] = {ExitCode.CLUSTER_TROUBLE: "cluster trouble", ExitCode.CUT_OFF: "cut off"}
_FIRST_RETRYABLE_CODE = 128  # From this exit code on, another try may help.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READER_GONE = (signal.SIGHUP, signal.SIGPIPE)  # Programs do not save their state on these.


@final
class Supervisor:
    """Runs one command as every task of a cluster."""

    def __init__(
        self,
        plan: ClusterPlan,
        command: Sequence[str],
        display: Display,
        *,
        restarts: int = 0,
        grace_secs: float = 10.0,
        environment: Mapping[str, str] | None = None,
        bar_columns: int = 0,
        backend: Backend | None = None,
        max_delay_secs: float = 60.0,
        steady_secs: float = 300.0,
        min_workers: int | None = None,
    ):
        """Keeps the settings; `run` starts the tasks.

        Args:
          plan: The tasks.
          command: Program and arguments, the same for all tasks.
          display: Shows the output of the tasks.
          restarts: Number of times that a task is restarted after a retryable exit code.
          grace_secs: Seconds between asking a task to end and killing it.
          environment: Environment of the tasks, to which TF_CONFIG is added; None means that of
            this process.
          bar_columns: Width of the progress bar that the chief may show, in characters; 0 for none.
          backend: Starts the processes; None means a `LocalBackend`, which starts them on this
            machine.
          max_delay_secs: Upper limit of the pause before a restart, which is 1, 2, 4 ... seconds.
          steady_secs: If a task ran for this many seconds before it ended, the pause is 1 second
            again. Longer than a task takes to start; the number of restarts is not affected.
          min_workers: Fewest workers, ≥ 1, that go on without those that are lost, in a cluster
            without parameter servers; None for a job that ends, or restarts all.
        """
        self._plan = plan
        self._command = command
        self._display = display
        self._restarts = restarts
        self._grace_secs = min(_LONGEST_GRACE_SECS, grace_secs)
        self._environment = os.environ if environment is None else environment
        self._bar_columns = bar_columns
        self._backend = LocalBackend(self._grace_secs) if backend is None else backend
        self._max_delay_secs = max_delay_secs
        self._steady_secs = steady_secs
        self._streams = OutputStreams(display)
        self._states = {str(task): TaskState(str(task), task) for task in plan.tasks}
        trainers = [each for each in self._states.values() if each.task.role.trains]
        self._regrouping = (
            None if min_workers is None else Regrouping(trainers, min_workers, self._log)
        )
        self._signals: list[int] = []
        self._signalled_at = -math.inf
        self._end_signal: int | None = None  # The signal that ends the tasks, once the job ends.
        self._exit_by = math.inf
        self._job_code = 0
        self._failed: list[str] = []

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the tasks that failed for good before they were asked to end."""
        return tuple(self._failed)

    def run(self) -> int:
        """Runs the tasks to their end. Must be called from the main thread.

        Returns:
          The exit code of the job: 0 if the chief was done and nothing else failed; 128 + signal
          number if a signal to this process ended the job; else the code of the first task that
          failed for good.

        Raises:
          OSError: A process cannot be started.
        """
        with self._backend, self._streams, self._collect_signals():
            try:
                while not all(state.is_over for state in self._states.values()):
                    self._start_due()
                    self._streams.show(_POLL_SECS)
                    self._collect_exits()
                    self._regroup()
                    self._handle_signals()
                    self._end_overdue()
            finally:
                for state in self._states.values():
                    if state.process is not None:
                        state.process.kill()
        return self._job_code

    def end(self, number: int) -> None:
        """Ends the tasks as a signal of that number to this process would."""
        self._signals.append(number)

    def pid(self, name: str) -> int | None:
        """Returns the number of a task's process; None if none runs on this machine.

        Args:
          name: Name of the task, such as "worker 0".
        """
        process = self._states[name].process
        return None if process is None else process.pid

    @contextlib.contextmanager
    def _collect_signals(self) -> Iterator[None]:
        """Queues signals for `_handle_signals`; ignored signals stay ignored."""

        def receive(number: int, _: FrameType | None) -> None:
            self.end(number)

        numbers = [n for n in _SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
        before = {number: signal.signal(number, receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start_due(self) -> None:
        for name, state in self._states.items():
            if state.start_at > time.monotonic():
                continue
            task = state.task
            environment = {**self._environment, "TF_CONFIG": self._plan.tf_config(task)}
            bar_columns = self._bar_columns if task.role.saves else 0
            state.process = self._backend.start(
                ProcessPlan(task, self._command, environment, bar_columns)
            )
            self._streams.add(name, state.process)
            state.starts += 1
            state.started_at, state.start_at = time.monotonic(), math.inf
            place = f" as {task}" if str(task) != name else ""
            place += f" at {task.address}" if task.address else ""
            self._log(f"{name}{place}: {state.process.label}")

    def _collect_exits(self) -> None:
        """Handles all exits, once all are known: the first failure makes the others be asked."""
        exits = [
            (state, *ended)
            for state in self._running()
            if (ended := self._ended(state)) is not None
        ]
        for state, code, was_asked in exits:
            self._handle_exit(state, code, was_asked)

    def _ended(self, state: TaskState) -> tuple[int, bool] | None:
        """Returns the exit code if the process has ended, and True if it was asked to."""
        process = state.process
        code = None if process is None else process.poll()
        if process is None or code is None:
            return None
        process.kill()
        self._streams.finish(process)
        was_asked, state.kill_at = state.kill_at < math.inf, math.inf
        state.process, state.code = None, code
        return code, was_asked

    def _handle_exit(self, state: TaskState, code: int, was_asked: bool) -> None:
        """Restarts a task that has ended, or ends the job, or does nothing."""
        is_done = any(state.task.role.saves and state.code == 0 for state in self._states.values())
        is_retryable = code >= _FIRST_RETRYABLE_CODE
        is_in_group = self._regrouping is not None and state.task.role.trains
        message = f"{state.name} has ended with exit code {_described(code)}"
        if was_asked or code == 0:
            self._log(message)
        elif self._end_signal is not None:
            self._log(message)
            self._failed.append(state.name)
        elif is_retryable and is_done and state.task.address is not None:
            self._log(f"{message}; the chief is done, so that it is not started again")
        elif is_retryable and self._goes_on_without(state, code):
            self._log(f"{message}; those that are left go on")
        elif is_retryable and not is_in_group and state.restarts < self._restarts:
            delay = self._count_restart(state)
            state.start_at = time.monotonic() + delay
            count = f"{state.restarts} of {self._restarts}"
            self._log(f"{message}; it starts again in {delay:g} s ({count})")
        else:
            is_used_up = is_retryable and 0 < self._restarts <= state.restarts
            used_up = " and has no restart left" if is_used_up else ""
            self._log(f"{message}{used_up}: the others are asked to end")
            self._failed.append(state.name)
            self._end_job(signal.SIGTERM, code)
        if is_done:
            self._await_exits()

    def _count_restart(self, state: TaskState) -> float:
        """Counts a restart of a task, and returns the pause before it in seconds."""
        if time.monotonic() - state.started_at >= self._steady_secs:
            state.next_delay_secs = FIRST_DELAY_SECS
        delay = min(state.next_delay_secs, self._max_delay_secs)
        state.next_delay_secs = 2 * delay
        state.restarts += 1
        return delay

    def _goes_on_without(self, state: TaskState, code: int) -> bool:
        """Returns True if the other workers go on without one whose process has ended."""

        def restarts_at() -> float:
            if state.restarts >= self._restarts:
                return math.inf
            return time.monotonic() + self._count_restart(state)

        regrouping = self._regrouping
        if regrouping is None or state not in regrouping.members:
            return False
        return regrouping.leave(state, code, restarts_at)

    def _regroup(self) -> None:
        """Ends a group of workers that has lost one, and starts the next group."""
        regrouping = self._regrouping
        if regrouping is None or self._end_signal is not None or self._exit_by < math.inf:
            return
        regrouping.end_stragglers()
        regrouping.begin_growth()
        members = regrouping.next_group()
        if members is None:
            return
        self._plan = self._plan.regrouped([each.task for each in members])
        trainers = [task for task in self._plan.tasks if task.role.trains]
        for state, task in zip(members, trainers, strict=True):
            state.task, state.start_at = task, time.monotonic()

    def _await_exits(self) -> None:
        """Gives workers and parameter servers time to exit once the chief is done.

        None of them is restarted any more.
        """
        for state in self._cluster_states():
            state.start_at = state.back_at = math.inf
        has_workers = any(state.task.role.trains for state in self._running())
        secs = _EXIT_SECS if has_workers else self._grace_secs
        self._exit_by = min(self._exit_by, time.monotonic() + secs)

    def _handle_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            now = time.monotonic()
            is_reader_gone = number in _READER_GONE
            is_second = self._end_signal is not None
            if now - self._signalled_at < _SAME_SIGNAL_SECS or (is_second and is_reader_gone):
                continue
            self._signalled_at = now
            name = signal.Signals(number).name
            if is_second:
                self._log(f"{name}: everything is ended at once")
                for state in self._running():
                    state.kill_at = 0.0
            else:
                self._log(
                    f"{name}: all tasks are asked to end, and have {self._grace_secs:g} s; "
                    "a second signal ends them at once"
                )
                self._end_job(signal.SIGTERM if is_reader_gone else number, 128 + number)

    def _end_job(self, number: int, code: int) -> None:
        """Asks every task to end, and restarts none.

        Parameter servers are asked last, by `_end_overdue`: the chief needs them to save.
        """
        self._end_signal = number
        self._job_code = code
        for state in self._states.values():
            state.start_at = state.back_at = math.inf
        self._ask_to_end(
            [state for state in self._running() if not state.task.role.keeps_variables], number
        )

    def _end_overdue(self) -> None:
        """Asks or forces tasks to end whose time is up."""
        now = time.monotonic()
        if now >= self._exit_by:
            self._exit_by = math.inf
            late = [state for state in self._cluster_states() if state in self._running()]
            for state in late:
                self._log(f"{state.name} does not leave by itself and is asked to")
            self._ask_to_end(late, signal.SIGTERM)
        running = self._running()
        if self._end_signal is not None and not any(each.task.role.trains for each in running):
            servers = [each for each in running if each.task.role.keeps_variables]
            unasked = [each for each in servers if each.kill_at == math.inf]
            self._ask_to_end(unasked, self._end_signal)
        for state in self._running():
            if now >= state.kill_at and state.process is not None:
                self._log(f"{state.name} is ended by force")
                state.process.send_signal(signal.SIGKILL)
                state.kill_at = math.inf

    def _ask_to_end(self, states: Sequence[TaskState], number: int) -> None:
        for state in states:
            if state.process is not None:
                state.process.send_signal(number)
                state.kill_at = time.monotonic() + self._grace_secs

    def _running(self) -> list[TaskState]:
        return [state for state in self._states.values() if state.process is not None]

    def _cluster_states(self) -> list[TaskState]:
        """Returns the states of all tasks except the evaluator."""
        return [state for state in self._states.values() if state.task.address is not None]

    def _log(self, text: str) -> None:
        self._display.line(LAUNCHER, text, is_error=True)


def _described(code: int) -> str:
    if code in _CAUSES:
        return f"{code} ({_CAUSES[code]})"
    with contextlib.suppress(ValueError):
        return f"{code} ({signal.Signals(code - 128).name})"
    return str(code)
