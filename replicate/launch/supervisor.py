"""The supervisor: runs the tasks of a cluster until the job is done, or has failed.

Owns the rules of the end. The chief decides: when it is done the job is, and workers and parameter
servers have some time to leave. A task that fails ends the others, unless its exit code says that
starting it again may help (128 and above, or a signal) and it may. A signal to the supervisor goes
to all tasks; a second one ends them by force. `Process` is what it runs, `Display` what it tells.
"""

import contextlib
import dataclasses
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from replicate.exit_codes import ExitCode
from replicate.launch.console import LAUNCHER, Display
from replicate.launch.outputs import Outputs
from replicate.launch.plan import ClusterPlan, Task
from replicate.launch.process import Guard, Process

_POLL_SECS = 0.1
_LEAVE_SECS = 90.0  # More than our parameter servers wait for other workers once the chief is done.
_MAX_DELAY_SECS = 60
_SAME_SECS = 0.5  # A program that runs the launcher may pass on what the terminal tells both.
_CLUSTER_TROUBLE = ExitCode.CLUSTER_TROUBLE  # Of programs that end by a ClusterError.
_RETRYABLE = 128  # The least exit code that says that another try may help.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclasses.dataclass(eq=False)
class _Role:
    """A task and what has become of it. Times are those of the monotonic clock, in seconds.

    Attributes:
      task: The task.
      process: Its process; None before the first start and when it has ended.
      starts: How often it was started.
      start_at: When it is to be started; infinite for never.
      kill_at: When its process is ended by force; infinite for never.
      code: Exit code of its last process; None before that has ended.
    """

    task: Task
    process: Process | None = None
    starts: int = 0
    start_at: float = 0.0
    kill_at: float = math.inf
    code: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it neither runs nor will."""
        return self.process is None and self.start_at == math.inf


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
    ):
        """Starts nothing yet.

        Args:
          plan: The tasks.
          command: Program and arguments, the same for all tasks.
          display: What shows their output.
          restarts: How often a task is started again after an exit code that says it may help.
          grace_secs: Seconds between asking a task to end and ending it by force.
          environment: Of the tasks, to which TF_CONFIG is added; None for that of this process.
          bar_columns: Width of the progress bar that the chief may show; 0 for none.
        """
        self._plan = plan
        self._command = command
        self._display = display
        self._restarts = restarts
        self._grace_secs = grace_secs
        self._environment = os.environ if environment is None else environment
        self._bar_columns = bar_columns
        self._outputs = Outputs(display)
        self._roles = {str(task): _Role(task) for task in plan.tasks}
        self._signals: list[int] = []
        self._signalled_at = -math.inf
        self._end_signal: int | None = None  # What asks the tasks to end, once they are to.
        self._leave_at = math.inf
        self._code = 0  # Of the job.

    def run(self) -> int:
        """Runs the tasks to their end, from the main thread, and returns the exit code of the job.

        Returns:
          0 if the chief was done and nothing else failed; 128 + signal number if a signal has ended
          the job; else the code of the first task that failed for good.
        """
        with Guard(self._grace_secs) as guard, self._outputs, self._received_signals():
            try:
                while not all(role.is_over for role in self._roles.values()):
                    self._start_due(guard)
                    self._outputs.show(_POLL_SECS)
                    self._look_for_ends(guard)
                    self._obey_signals()
                    self._end_late_ones()
            finally:
                for role in self._roles.values():
                    if role.process is not None:
                        role.process.end()
        return self._code

    def pid(self, name: str) -> int | None:
        """Returns the number of the process that is a task now, None if there is none.

        Args:
          name: Of the task, such as "worker 0".
        """
        process = self._roles[name].process
        return None if process is None else process.pid

    @contextlib.contextmanager
    def _received_signals(self) -> Iterator[None]:
        """Collects signals instead of obeying them at once; what was ignored is still ignored."""

        def receive(number: int, _: FrameType | None) -> None:
            self._signals.append(number)

        numbers = [n for n in _SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
        before = {number: signal.signal(number, receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start_due(self, guard: Guard) -> None:
        for name, role in self._roles.items():
            if role.start_at > time.monotonic():
                continue
            role.process = Process(
                self._command,
                {**self._environment, "TF_CONFIG": self._plan.tf_config(role.task)},
                self._bar_columns if role.task.job == "chief" else 0,
            )
            guard.started(role.process.pid)
            self._outputs.add(name, role.process)
            role.starts += 1
            role.start_at = math.inf
            place = f" at {role.task.address}" if role.task.address else ""
            self._say(f"{name}{place}: process {role.process.pid}")

    def _look_for_ends(self, guard: Guard) -> None:
        for role in self._roles.values():
            process = role.process
            code = None if process is None else process.exit_code
            if process is not None and code is not None:
                process.end()
                guard.ended(process.pid)
                self._outputs.finish(process)
                was_asked, role.kill_at = role.kill_at < math.inf, math.inf
                role.process, role.code = None, code
                self._decide(role, code, was_asked)

    def _decide(self, role: _Role, code: int, was_asked: bool) -> None:
        """What follows from the end of a task, which may have been asked for."""
        is_done = self._roles["chief 0"].code == 0
        may_help = code >= _RETRYABLE
        said = f"{role.task} has ended with exit code {_described(code)}"
        if self._end_signal is not None or was_asked or code == 0:
            self._say(said)
        elif may_help and is_done and role.task.address is not None:
            self._say(f"{said}; the chief is done, so that it is not started again")
        elif may_help and role.starts <= self._restarts:
            delay = min(2 ** (role.starts - 1), _MAX_DELAY_SECS)
            role.start_at = time.monotonic() + delay
            self._say(f"{said}; it starts again in {delay} s ({role.starts} of {self._restarts})")
        else:
            used_up = " and has no restart left" if may_help and self._restarts else ""
            self._say(f"{said}{used_up}: the others are asked to end")
            self._end_all(signal.SIGTERM, code)
        if is_done:
            self._let_leave()

    def _let_leave(self) -> None:
        """The chief is done: workers and parameter servers have some time, and are not replaced."""
        for role in self._cluster():
            role.start_at = math.inf
        is_alone = not any(role.task.job == "worker" for role in self._running())
        secs = self._grace_secs if is_alone else _LEAVE_SECS
        self._leave_at = min(self._leave_at, time.monotonic() + secs)

    def _obey_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            now = time.monotonic()
            if now - self._signalled_at < _SAME_SECS:
                continue
            self._signalled_at = now
            name = signal.Signals(number).name
            if self._end_signal is not None:
                self._say(f"{name}: everything is ended at once")
                for role in self._running():
                    role.kill_at = 0.0
            else:
                self._say(
                    f"{name}: all tasks are asked to end, and have {self._grace_secs:g} s; "
                    "a second signal ends them at once"
                )
                hung_up = number == signal.SIGHUP  # Programs save at the other two.
                self._end_all(signal.SIGTERM if hung_up else number, 128 + number)

    def _end_all(self, number: int, code: int) -> None:
        """Begins the end: asks every task to, and starts none again.

        Parameter servers are asked when nobody trains any more: the chief cannot save without them.
        """
        self._end_signal = number
        self._code = code
        for role in self._roles.values():
            role.start_at = math.inf
        self._ask([role for role in self._running() if role.task.job != "ps"], number)

    def _end_late_ones(self) -> None:
        now = time.monotonic()
        if now >= self._leave_at:
            self._leave_at = math.inf
            late = [role for role in self._cluster() if role in self._running()]
            for role in late:
                self._say(f"{role.task} does not leave by itself and is asked to")
            self._ask(late, signal.SIGTERM)
        jobs = {role.task.job for role in self._running()}
        if self._end_signal is not None and not jobs & {"chief", "worker"}:
            servers = [r for r in self._running() if r.task.job == "ps" and r.kill_at == math.inf]
            self._ask(servers, self._end_signal)
        for role in self._running():
            if now >= role.kill_at and role.process is not None:
                self._say(f"{role.task} is ended by force")
                role.process.signal(signal.SIGKILL)
                role.kill_at = math.inf

    def _ask(self, roles: Sequence[_Role], number: int) -> None:
        for role in roles:
            if role.process is not None:
                role.process.signal(number)
                role.kill_at = time.monotonic() + self._grace_secs

    def _running(self) -> list[_Role]:
        return [role for role in self._roles.values() if role.process is not None]

    def _cluster(self) -> list[_Role]:
        """All but the evaluator."""
        return [role for role in self._roles.values() if role.task.address is not None]

    def _say(self, text: str) -> None:
        self._display.line(LAUNCHER, text, is_error=True)


def _described(code: int) -> str:
    if code == _CLUSTER_TROUBLE:
        return f"{code} (cluster trouble)"
    with contextlib.suppress(ValueError):
        return f"{code} ({signal.Signals(code - 128).name})"
    return str(code)
