"""Lines about progress: the start, the pace, the time that is left."""

import fcntl
import io
import json
import logging
import os
import pty
import re
import struct
import sys
import termios

import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.estimator import RunConfig
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.hooks.pace import Pace
from replicate.estimator.hooks.progress import ProgressHook, show_start
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.start import StartHook
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook
from replicate.tower.recorded_plan import record_plan

v1 = tf.compat.v1
RATE = r"[\d.]+[kM]?"
SHOWN = """\
towers          1: TensorFlow's choice
variables on    TensorFlow's choice
consolidation   TensorFlow's choice
variable  shape  parameters  bytes
w         2x3             6     24
1 variable, 6 parameters, 0.00 MiB
"""


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Steps:
    """A step counter with a loss, and a batch that counts how often its size is fetched.

    The counter moves in each `runs_per_step`-th run, as it does between rounds of workers.
    """

    def __init__(self, runs_per_step=1):
        self.fetched = self._runs = 0
        self._runs_per_step = runs_per_step
        moved = tf.numpy_function(self._moved, [], tf.int64)
        step_op = v1.assign_add(v1.train.create_global_step(), moved).op
        self.readings = StepReadings(step_op, tf.constant(0.21374))
        self.batch_size = tf.numpy_function(self._batch_size, [], tf.int64)

    def _moved(self):
        self._runs += 1
        return int(self._runs % self._runs_per_step == 0)

    def _batch_size(self):
        self.fetched += 1
        return 8

    def run(self, count, stream, **settings):
        hook = ProgressHook("train", self.readings, stream=stream, **settings)
        loop = StepLoop(self.readings, [StopHook(self.readings, count), hook])
        with v1.train.MonitoredSession(hooks=loop.hooks) as session:
            loop.run(session)
        hook.close()
        return stream


@pytest.fixture
def steps(graph):
    return Steps()


def test_a_line_per_interval_without_a_terminal(steps):
    stream = steps.run(3, io.StringIO(), last_step=3, examples_per_step=64, interval=0.0)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2, "the first step has no speed"
    for number, line in enumerate(lines, 2):
        eta = "  ETA 00:00" if number == 3 else ""
        pattern = rf"train  step {number}/3  {RATE} step/s  {RATE} ex/s  loss 0\.2137{eta}"
        assert re.fullmatch(pattern, line)


def test_steps_between_two_lines_fetch_nothing(steps):
    settings = {"last_step": 20, "examples_per_step": steps.batch_size, "interval": 1e9}
    lines = steps.run(20, Terminal(), mode="log", **settings).getvalue().splitlines()
    pattern = rf"train  step 20/20  ({RATE}) step/s  ({RATE}) ex/s  loss 0\.2137  ETA 00:00"
    assert len(lines) == 1
    rates = re.fullmatch(pattern, lines[0]).groups()
    step_rate, example_rate = (float(rate.replace("k", "e3")) for rate in rates)
    assert example_rate == pytest.approx(8 * step_rate, rel=0.02)
    assert steps.fetched == 1


def test_runs_that_make_no_step_are_not_shown_before_the_last_step(graph):
    steps = Steps(runs_per_step=4)
    settings = {"last_step": 2, "examples_per_step": steps.batch_size, "interval": 1e9}
    [line] = steps.run(2, io.StringIO(), **settings).getvalue().splitlines()
    assert line.startswith("train  step 2/2 ")


def test_without_a_known_end_there_is_no_eta_and_a_last_line(steps):
    lines = steps.run(4, io.StringIO(), interval=1e9).getvalue().splitlines()
    assert len(lines) == 1
    assert re.fullmatch(rf"train  step 4  {RATE} step/s  loss 0\.2137", lines[0])


@pytest.mark.parametrize("mode", ["log", "bar"])
def test_steps_beyond_the_end_are_not_shown(steps, mode):
    text = steps.run(4, io.StringIO(), last_step=2, mode=mode, interval=0.0).getvalue()
    assert re.findall(r"\d/2", text)[-3:] == ["2/2"] * 3
    assert not re.search(r"[34]/2", text)


def test_log_lines_begin_where_the_bar_was(steps):
    terminal, logger = Terminal(), tf.get_logger()
    handler = logging.StreamHandler(terminal)
    logger.addHandler(handler)
    try:
        hook = ProgressHook("train", steps.readings, stream=terminal, last_step=3, interval=0.0)
        with v1.train.MonitoredSession(hooks=StepLoop(steps.readings, [hook]).hooks) as session:
            session.run([])
            logger.warning("saved")
        hook.close()
        logger.warning("done")
    finally:
        logger.removeHandler(handler)
    before = terminal.getvalue().partition("saved\n")[0]
    bar, cleared, _ = before.rsplit("\r", 2)
    assert "train" in bar
    assert cleared.strip(" ") == ""
    assert handler.filters == []


def test_bar_on_a_terminal(steps):
    text = steps.run(5, Terminal(), last_step=10, examples_per_step=64, interval=0.0).getvalue()
    pattern = (
        rf"train   50%\|█████     \| 5/10 \[\d\d:\d\d<[\d:?]+, {RATE} step/s, {RATE} ex/s, "
        r"loss 0\.2137\]"
    )
    assert re.search(pattern, text)
    assert text.endswith("\n")


def test_bar_without_a_known_end(steps):
    text = steps.run(5, io.StringIO(), mode="bar", interval=0.0).getvalue()
    assert re.search(rf"train  5 \[\d\d:\d\d, {RATE} step/s, loss 0\.2137\]", text)


def read_terminal(terminal):
    """The next part of what was written; "" when the other end is closed and all is read."""
    try:
        return os.read(terminal, 65536).decode()
    except OSError:
        return ""


def test_off_shows_nothing_and_fetches_nothing(steps):
    settings = {"last_step": 5, "examples_per_step": steps.batch_size}
    assert steps.run(5, Terminal(), mode="off", **settings).getvalue() == ""
    assert steps.fetched == 0
    stream = io.StringIO()
    show_start("train", "building the model", "off", stream)
    assert stream.getvalue() == ""
    show_start("train", "building the model", "auto", stream)
    assert stream.getvalue() == "train  starting: building the model\n"


def test_bar_in_a_narrow_terminal_leaves_out_the_examples(steps, monkeypatch):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        steps.run(5, stream, last_step=10, examples_per_step=64, interval=0.0)
    shown = "".join(iter(lambda: read_terminal(ours), ""))
    os.close(ours)
    assert re.search(rf"5/10 \[\d\d:\d\d<[\d:?]+, {RATE} step/s, loss 0\.2137\]", shown)
    assert "ex/s" not in shown


def test_first_step_shows_neither_speed_nor_time_left(steps):
    text = steps.run(1, io.StringIO(), last_step=99, interval=1e9, shows_start=True).getvalue()
    assert text == "train  starting: compiling the first step\n"


def test_bar_shows_the_start_in_its_own_line(steps):
    text = steps.run(2, Terminal(), last_step=2, interval=0.0, shows_start=True).getvalue()
    frames = [frame.strip() for frame in text.split("\r") if frame.strip()]
    assert frames[0] == "train  starting: compiling the first step"
    assert re.fullmatch(r"train   50%\|█████     \| 1/2 \[\d\d:\d\d<\?, loss 0\.2137\]", frames[2])


def paced(*marks):
    """A pace whose first step ended at time 0, after marks of (seconds, step)."""
    pace = Pace()
    pace.begin(1, 0.0)
    for time, step in marks:
        pace.update(step, time)
    return pace


def test_time_left_is_unknown_until_two_rates_agree_or_half_a_minute_is_over():
    assert paced((5.0, 11)).update(31, 10.0) == 4.0, "the rate since the last update"
    assert paced((5.0, 11)).secs_until(100) is None
    assert paced((5.0, 3), (10.0, 23)).secs_until(100) is None
    assert paced((5.0, 11), (10.0, 21)).secs_until(101) == pytest.approx(40.0)
    changed = paced((5.0, 11), (10.0, 21), (15.0, 22))
    assert changed.secs_until(43) == pytest.approx(15.0), "once known, it stays known"
    unsteady = paced((1.0, 2), (29.0, 100))
    assert unsteady.secs_until(199) is None
    unsteady.update(100, 30.0)
    assert unsteady.secs_until(199) == pytest.approx(30.0)


def test_time_left_follows_the_rate_of_the_last_minute():
    pace = paced(*((time, 1 + 10 * time) for time in range(10, 200, 10)))
    assert pace.secs_until(pace.step + 100) == pytest.approx(10.0)
    for number in range(1, 7):
        pace.update(pace.step + 10, 190.0 + 10 * number)
    assert pace.secs_until(pace.step + 10) == pytest.approx(10.0)


def test_nothing_is_left_at_the_end_and_no_progress_gives_no_time():
    assert paced().secs_until(1) == 0.0
    assert paced((5.0, 9)).secs_until(8) == 0.0
    assert paced((20.0, 1), (40.0, 1)).secs_until(100) is None


@pytest.fixture
def model(graph):
    v1.get_variable("w", [2, 3])
    v1.get_variable("other", [2, 3], trainable=False)


def test_devices_and_variables_are_shown_once_until_they_change(model, tmp_path, capsys):
    hook = StartHook(RunConfig(str(tmp_path), progress="log"), {"rate": 1})
    hook.begin()
    hook.begin()
    assert capsys.readouterr() == ("", SHOWN)
    record_plan(device_plan(["/cpu:0"]))
    hook.begin()
    assert capsys.readouterr().err.startswith("towers          1: /device:CPU:0\n")
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["devices"]["towers"] == ["/device:CPU:0"]
    assert record["params"] == {"rate": 1}


def test_without_progress_there_is_a_record_and_a_line_in_the_log(model, tmp_path, capsys, caplog):
    with caplog.at_level("INFO", logger="absl"):
        StartHook(RunConfig(str(tmp_path), progress="off"), {}).begin()
    assert capsys.readouterr().err == ""
    assert [row["variable"] for row in json.loads((tmp_path / "run.json").read_text())["variables"]]
    assert caplog.messages == [
        "Training. Towers: 1: TensorFlow's choice. Variables on: TensorFlow's choice. "
        "Consolidation: TensorFlow's choice."
    ]


def test_a_worker_only_logs(model, tmp_path, capsys):
    jobs = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",)}
    config = RunConfig(str(tmp_path), progress="log", cluster=ClusterConfig(jobs, "worker"))
    StartHook(config, {}).begin()
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
