"""Pace: steps per second of a run, and the time that is left once its rate is stable."""

from collections import deque
from typing import final

_SPAN_SECS = 60.0
_UNSTEADY_SECS = 30.0
_STABLE_RATIO = 1.25


@final
class Pace:
    """Rate of a session's steps after the first one, which TensorFlow compiles.

    Attributes:
      has_begun: True once the first step is made.
      step: Step of the last update.
      time: Time of the last update, in seconds.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.step = 0
        self.time = 0.0
        self._begun = 0.0
        self._marks: deque[tuple[float, int]] = deque()
        self._is_stable = False

    def begin(self, step: int, time: float) -> None:
        """Starts the clock, one that only goes forward, at the end of the first step."""
        self.has_begun = True
        self.step, self.time, self._begun = step, time, time
        self._marks.append((time, step))

    def update(self, step: int, time: float) -> float:
        """Returns the steps per second since the last update."""
        rate = (step - self.step) / max(time - self.time, 1e-9)
        self.step, self.time = step, time
        self._marks.append((time, step))
        while len(self._marks) > 3 and self._marks[1][0] <= time - _SPAN_SECS:
            self._marks.popleft()
        self._is_stable = self._is_stable or self._has_settled()
        return rate

    def secs_until(self, last_step: int) -> float | None:
        """Returns the seconds that are left at the rate of the last minute.

        The result is None while the rate is not stable: until it is the same in both halves of the
        time since the first step, within a quarter, or half a minute is over.
        """
        left = max(0, last_step - self.step)
        if not left:
            return 0.0
        since, first = self._marks[0]
        steps = self.step - first
        if not self._is_stable or not steps:
            return None
        return left * (self.time - since) / steps

    def _has_settled(self) -> bool:
        """Returns True if the rates before and after the mark in the middle are about the same."""
        if self.time - self._begun >= _UNSTEADY_SECS:
            return True
        if len(self._marks) < 3:
            return False
        middle = min(list(self._marks)[1:-1], key=lambda mark: abs(2 * mark[0] - self._sum_of_ends))
        rates = [
            (end[1] - start[1]) / max(end[0] - start[0], 1e-9)
            for start, end in ((self._marks[0], middle), (middle, self._marks[-1]))
        ]
        return 0 < max(rates) <= _STABLE_RATIO * min(rates)

    @property
    def _sum_of_ends(self) -> float:
        return self._marks[0][0] + self._marks[-1][0]
