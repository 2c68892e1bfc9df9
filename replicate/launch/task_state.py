"""TaskState: one task of a supervised job, and the process that runs it now."""

import dataclasses
import math

from replicate.launch.backend import ProcessHandle
from replicate.launch.plan import Task

FIRST_DELAY_SECS = 1.0
"""Pause before the first restart of a task."""


@dataclasses.dataclass(eq=False)
class TaskState:
    """The state of one task. Times are seconds of the monotonic clock; infinite means never.

    Attributes:
      name: Its name in the output, which never changes.
      task: The task that its process has; another one after workers were lost.
      process: Its process; None while none runs.
      starts: Number of times that it was started.
      restarts: Number of times that it was started again by itself.
      started_at: Time of its last start.
      start_at: Time at which to start it.
      back_at: Time from which on a lost worker may come back to the others.
      next_delay_secs: Pause before its next restart.
      kill_at: Time at which to kill its process.
      code: Exit code of its last process; None before that has ended.
    """

    name: str
    task: Task
    process: ProcessHandle | None = None
    starts: int = 0
    restarts: int = 0
    started_at: float = 0.0
    start_at: float = 0.0
    back_at: float = math.inf
    next_delay_secs: float = FIRST_DELAY_SECS
    kill_at: float = math.inf
    code: int | None = None

    @property
    def is_over(self) -> bool:
        """True if no process runs and none will be started."""
        return self.process is None and self.start_at == math.inf and self.back_at == math.inf
