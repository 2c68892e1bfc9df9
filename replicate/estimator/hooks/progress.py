"""ProgressHook: shows the progress of a run on a terminal or in a log.

Owns a hook with two displays: a bar on a terminal, and one line per interval elsewhere, so that
logs stay readable. Both write to standard error, need no configured logging, and are flushed at
once. The hook fetches nothing between two updates.

Until the first step is made, the displays say what the run starts with: building the model,
restoring a checkpoint, compiling. `pace.py` owns the speed and the time that is left.
"""

import math
import sys
import time
from typing import Any, Protocol, TextIO

import tensorflow as tf
from tqdm import tqdm

from replicate._types import Tensor
from replicate.estimator.hooks.bar_lines import ClearedForLines
from replicate.estimator.hooks.pace import Pace
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1


COMPILING = "compiling the first step"
"""Task of a session's first run, in which TensorFlow optimizes the graph."""


def show_start(label: str, task: str, mode: str = "auto", stream: TextIO | None = None) -> None:
    """Shows a task before the first step, such as "building the model", on a line of its own."""
    if mode != "off":
        stream = sys.stderr if stream is None else stream
        print(_start_text(label, task), file=stream, flush=True)


def _start_text(label: str, task: str) -> str:
    return f"{label}  starting: {task}"


class ProgressHook(ScheduledHook):
    """Shows step, speed, examples per second, loss and the time that is left."""

    def __init__(
        self,
        label: str,
        readings: StepReadings,
        examples_per_step: int | Tensor | None = None,
        last_step: int | None = None,
        num_steps: int | None = None,
        mode: str = "auto",
        interval: float | None = None,
        stream: TextIO | None = None,
        shows_start: bool = False,
    ):
        """Keeps the settings; shows nothing yet.

        Args:
          label: First word of the display, such as "train".
          readings: Hold step and loss.
          examples_per_step: Rows of a batch, if known. A Tensor is fetched only for an update.
          last_step: Step at which the run ends, None if unknown.
          num_steps: Steps of this run, another way to give `last_step`.
          mode: "bar", "log", "off", or "auto": the bar if the stream is a terminal, else lines.
          interval: Seconds between two updates; None for 0.25 (bar) or 5 (lines).
          stream: Output, None for standard error.
          shows_start: If True, the tasks before the first step are shown. A bar shows the last
            of them in any case.
        """
        stream = sys.stderr if stream is None else stream
        if mode == "auto":
            mode = "bar" if stream.isatty() else "log"
        self._display = _DISPLAYS[mode](label, stream)
        self._interval = self._display.interval if interval is None else interval
        self._readings = readings
        self._examples = examples_per_step
        self._last_step = last_step
        self._num_steps = num_steps
        self._shows_start = shows_start
        self._pace = Pace()

    def show_start(self, task: str) -> None:
        """Shows a task before the first step of a session, such as "restoring model.ckpt-50"."""
        if self._shows_start:
            self._display.show_start(task)

    def next_run(self) -> NextRun:
        """Returns the time of the next update; the first and the last step are due in any case."""
        if self._interval == math.inf:
            return NextRun()
        if not self._pace.has_begun:
            return NextRun(self._readings.step + 1)
        last = math.inf if self._last_step is None else self._last_step
        return NextRun(last, self._pace.time + self._interval)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the count; after a lost session, continues at the restored step."""
        del session, coord
        step = self._readings.step
        if self._last_step is None and self._num_steps is not None:
            self._last_step = step + self._num_steps
        self._display.start(step, self._last_step)
        self.show_start(COMPILING)
        self._pace = Pace()

    def before_run(self, run_context: Any) -> Any:
        """Fetches the number of examples, if this step will be shown with its speed."""
        del run_context
        is_due = self._pace.has_begun and self.next_run().is_reached(self._readings.step + 1)
        is_wanted = is_due and isinstance(self._examples, tf.Tensor)
        return v1.train.SessionRunArgs(self._examples) if is_wanted else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Shows the step if it is due. The first step only starts the clock of the speed."""
        del run_context
        step = self._readings.step
        if self._interval == math.inf:
            return
        if not self._pace.has_begun:
            self._pace.begin(step, time.monotonic())
            self._display.show(self._place, None, self._loss)
        elif self.next_run().is_reached(step):
            self._show(run_values.results)

    def close(self) -> None:
        """Shows the last step unless it is shown already, and starts a new line."""
        if self._pace.has_begun and self._readings.step != self._pace.step:
            self._show()
        self._display.close()

    def _show(self, examples: Any = None) -> None:
        """Shows the step; `examples` are the rows of its batch, if they had to be fetched."""
        rate = self._pace.update(self._readings.step, time.monotonic())
        if examples is None and not isinstance(self._examples, tf.Tensor):
            examples = self._examples
        parts = [f"{tqdm.format_sizeof(rate)} step/s"]
        if examples is not None:
            parts.append(f"{tqdm.format_sizeof(rate * int(examples))} ex/s")
        self._display.show(self._place, self._time_left(), [*parts, *self._loss])

    @property
    def _place(self) -> int:
        """The step that is shown.

        Workers that do not wait for each other make a step or two more than they are to.
        """
        step = self._readings.step
        return step if self._last_step is None else min(step, self._last_step)

    @property
    def _loss(self) -> list[str]:
        loss = self._readings.loss
        return [] if loss is None else [f"loss {loss:.4g}"]

    def _time_left(self) -> str | None:
        """Returns the text of the time that is left, None while it is not known."""
        if self._last_step is None:
            return None
        secs = self._pace.secs_until(self._last_step)
        return None if secs is None else str(tqdm.format_interval(secs))


class _Display(Protocol):
    """One way to show progress.

    Attributes:
      interval: Seconds between two updates, unless the user says otherwise.
    """

    interval: float

    def __init__(self, label: str, stream: TextIO): ...

    def show_start(self, task: str) -> None:
        """Shows a task that comes before the first step of a session."""

    def start(self, step: int, last_step: int | None) -> None:
        """Starts the count; called again after a lost session."""

    def show(self, step: int, left: str | None, parts: list[str]) -> None:
        """Shows a step, the time that is left if it is known, and further texts."""

    def close(self) -> None:
        """Starts a new line."""


class _SelfContainedBar(tqdm):
    """A bar without a monitor thread: the hook refreshes it."""

    monitor_interval = 0


class _Bar:
    """A tqdm bar on one line of a terminal."""

    interval = 0.25

    def __init__(self, label: str, stream: TextIO):
        self._label = label
        self._stream = stream
        self._bar: Any = None

    def show_start(self, task: str) -> None:
        if self._bar is None:
            show_start(self._label, task, stream=self._stream)
        else:
            self._bar.bar_format = _start_text(self._label, task)
            self._bar.refresh()

    def start(self, step: int, last_step: int | None) -> None:
        if self._bar is not None:
            return
        self._bar = _SelfContainedBar(
            desc=f"{self._label} ",
            total=last_step,
            initial=step,
            bar_format=_start_text(self._label, COMPILING),
            file=self._stream,
            miniters=1,
        )
        self._lines = ClearedForLines(self._bar)

    def show(self, step: int, left: str | None, parts: list[str]) -> None:
        self._bar.n = step
        self._bar.bar_format = self._format(self._bar.total, left)
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        if len(parts) > 2 and self._is_too_long():
            self._bar.set_postfix_str(f"{parts[0]}, {parts[-1]}", refresh=False)
        self._bar.refresh()

    def _format(self, last_step: int | None, left: str | None) -> str:
        if last_step is None:
            return "{desc} {n_fmt} [{elapsed}{postfix}]"
        known = f"{{elapsed}}<{left or '?'}{{postfix}}"
        return f"{{desc}} {{percentage:3.0f}}%|{{bar:10}}| {{n_fmt}}/{{total_fmt}} [{known}]"

    def _is_too_long(self) -> bool:
        """Returns True if the terminal is too narrow for the bar with its texts."""
        settings = {**self._bar.format_dict, "ncols": None}
        return len(tqdm.format_meter(**settings)) > (self._bar.ncols or math.inf)

    def close(self) -> None:
        if self._bar is not None:
            self._lines.detach()
            self._bar.close()


class _Lines:
    """One line per interval."""

    interval = 5.0

    def __init__(self, label: str, stream: TextIO):
        self._label = label
        self._stream = stream
        self._last_step: int | None = None

    def show_start(self, task: str) -> None:
        show_start(self._label, task, stream=self._stream)

    def start(self, step: int, last_step: int | None) -> None:
        del step
        self._last_step = last_step

    def show(self, step: int, left: str | None, parts: list[str]) -> None:
        if len(parts) < 2:  # The first step, which has no speed yet.
            return
        place = f"step {step}"
        if self._last_step is not None:
            place += f"/{self._last_step}"
        if left is not None:
            parts = [*parts, f"ETA {left}"]
        print(f"{self._label}  {place}  {'  '.join(parts)}", file=self._stream, flush=True)

    def close(self) -> None:
        """Leaves everything as it is: a line is always complete."""


class _Silence:
    """Shows nothing, ever."""

    interval = math.inf

    def __init__(self, label: str, stream: TextIO):
        del label, stream

    def show_start(self, task: str) -> None:
        """Does nothing."""

    def start(self, step: int, last_step: int | None) -> None:
        """Does nothing."""

    def show(self, step: int, left: str | None, parts: list[str]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


_DISPLAYS: dict[str, type[_Display]] = {"bar": _Bar, "log": _Lines, "off": _Silence}
