"""TimeSpent: the seconds of a training job by what they are spent on, in the file time.json.

Owns the file in the model directory, which adds up all calls of train and all processes, and
survives a kill: it is written every `WRITE_SECS`, whole or not at all. The chief writes it
(`hooks/time_spent.py`), and `python -m replicate.report` reads it.
"""

import contextlib
import contextvars
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, final

import tensorflow as tf

from replicate.estimator.files import OptionalFiles, write_whole
from replicate.links import leads_out

TIME_FILE = "time.json"

WRITE_SECS = 30
"""Seconds between two writes of the file."""

START, TRAINING, INPUT, SAVING, EVALUATION = "start", "training", "input", "saving", "evaluation"
KINDS = (START, TRAINING, INPUT, SAVING, EVALUATION)

_running: contextvars.ContextVar["TimeSpent | None"] = contextvars.ContextVar(
    "running", default=None
)
"""Clock of the call of train that is running: another Estimator may evaluate inside of it."""


@final
class TimeSpent:
    """A clock of one process, which tells apart what time is spent on.

    Training is the remainder: the time in calls of train that no other kind has taken.
    """

    def __init__(self, model_dir: str):
        self._path = f"{model_dir.rstrip('/')}/{TIME_FILE}"
        self._optional = OptionalFiles()
        self._earlier: dict[str, Any] = {}
        self._written: dict[str, Any] = {}
        self._spent = dict.fromkeys(KINDS, 0.0)
        self._begun: float | None = None
        self._taken = 0.0
        self._first_step_secs: float | None = None
        self._steps = 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Measures a call of train inside the context. Time since the last write is added."""
        if self._written != (found := read_time_file(self._path)) or not found:
            self._earlier, self._spent, self._steps = found, dict.fromkeys(KINDS, 0.0), 0
        self._earlier = {**self._earlier, "calls": _number(self._earlier, "calls") + 1}
        self._begun, self._first_step_secs = time.monotonic(), None
        self._taken = 0.0
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)
            self._spent = self._totals()
            self._begun = None

    def during_evaluation(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that measures an evaluation, for the call of train that is running."""
        return (_running.get() or self).during(EVALUATION)

    @contextlib.contextmanager
    def during(self, kind: str) -> Iterator[None]:
        """Measures what is done inside the context. A kind inside of it is not counted twice.

        After a call of train, the file gets the evaluations that follow.
        """
        begun, taken = time.monotonic(), self._taken
        try:
            yield
        finally:
            inner = self._taken - taken
            self._add(kind, time.monotonic() - begun - inner)
            is_over = self._begun is None and bool(self._written)
            if is_over and read_time_file(self._path) == self._written:
                self.write()

    def end_start(self) -> None:
        """Ends the start of a call, when its first step is made."""
        if self._begun is not None and self._first_step_secs is None:
            self._first_step_secs = time.monotonic() - self._begun
            self._add(START, self._first_step_secs - self._taken)

    def add_steps(self, steps: int, input_secs: float) -> None:
        """Adds the steps of a call after its first one, and the seconds they waited for batches."""
        self._steps += steps
        self._add(INPUT, input_secs)

    def write(self) -> None:
        """Writes the file. If it cannot be written, a warning says so, once."""
        earlier = _numbers(self._earlier.get("seconds"))
        seconds = {
            kind: round(earlier.get(kind, 0.0) + secs, 3) for kind, secs in self._totals().items()
        }
        found = {
            "calls": self._earlier.get("calls", 0),
            "steps": int(_number(self._earlier, "steps")) + self._steps,
            "first_step_seconds": self._earlier.get("first_step_seconds"),
            "seconds": seconds,
        }
        if self._first_step_secs is not None:
            found["first_step_seconds"] = round(self._first_step_secs, 3)
        folder = os.path.dirname(self._path)
        if leads_out(self._path, folder):
            self._optional.warn(self._path, "it is a link to a file outside of its directory")
            return
        with self._optional.writing(self._path):
            text = json.dumps(found, indent=1, allow_nan=False) + "\n"
            write_whole(self._path, text, f"{self._path}.tmp{os.getpid()}")
            self._written = found

    def _add(self, kind: str, secs: float) -> None:
        self._spent[kind] += secs
        self._taken += secs

    def _totals(self) -> dict[str, float]:
        """Returns the seconds of each kind in this process, up to now."""
        if self._begun is None:
            return dict(self._spent)
        rest = time.monotonic() - self._begun - self._taken
        kind = START if self._first_step_secs is None else TRAINING
        return {**self._spent, kind: self._spent[kind] + max(0.0, rest)}


def read_time_file(path: str) -> dict[str, Any]:
    """Returns the contents of a time.json; {} if there is none, or it is damaged."""
    try:
        with tf.io.gfile.GFile(path) as file:
            found = json.loads(file.read())
    except (OSError, ValueError, RecursionError, tf.errors.OpError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(found: Mapping[str, Any], name: str) -> int:
    return int(_numbers(found).get(name, 0))


def _numbers(found: Any) -> dict[str, float]:
    """Returns the finite numbers of a mapping."""
    if not isinstance(found, dict):
        return {}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
