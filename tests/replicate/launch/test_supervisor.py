import json
import os
import re
import signal
import subprocess
import sys

import pytest

from replicate.launch import supervisor as module

LAUNCHED = re.compile(r"(\w+ \d)(?: at \S+)?: process (\d+)")


def pids(recorder):
    """Name and number of each process that was started, in this order."""
    found = map(LAUNCHED.fullmatch, recorder.of("launch"))
    return [(match[1], int(match[2])) for match in found if match]


def test_every_task_runs_the_command_with_its_own_tf_config(supervise, recorder, monkeypatch):
    monkeypatch.setenv("FRUIT", "apple")
    program = "say(job, index, os.environ.get('FRUIT'))"
    run = supervise(program, workers=2, ps=1, chief=True, evaluator=True)
    assert run.run() == 0
    for name in ("chief 0", "worker 0", "worker 1", "ps 0", "evaluator 0"):
        assert recorder.of(name) == [f"{name} apple"]


FAILS = """
say("ready")
if job == "worker":
    sys.exit(%d)
time.sleep(60)
"""


@pytest.mark.parametrize(("code", "restarts"), [(1, 3), (127, 3), (137, 0)])
def test_a_task_that_fails_for_good_ends_the_others(supervise, recorder, is_alive, code, restarts):
    run = supervise(FAILS % code, ps=1, evaluator=True, restarts=restarts, grace_secs=5)
    assert run.run() == code
    started = pids(recorder)
    assert len(started) == 4
    assert not any(is_alive(pid) for _, pid in started)
    described = "137 (SIGKILL)" if code == 137 else code
    said = f"worker 0 has ended with exit code {described}: the others are asked to end"
    assert said in recorder.of("launch")
    assert run.failed == ("worker 0",)


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ("sys.exit(138)", 138, "cluster trouble"),
        pytest.param("sys.exit(250)", 250, None, marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "SIGKILL"),
    ],
)
def test_retryable_exit_codes_restart_the_task_up_to_the_limit(supervise, recorder, how, code, why):
    program = f"say('ready')\nif job == 'worker':\n    {how}\ntime.sleep(60)"
    run = supervise(program, restarts=1, grace_secs=5)
    assert run.run() == code
    assert [name for name, _ in pids(recorder)].count("worker 0") == 2
    described = f"{code} ({why})" if why else str(code)
    assert f"exit code {described} and has no restart left" in " ".join(recorder.of("launch"))


@pytest.fixture
def pauses(supervise, monkeypatch):
    """Pauses before the restarts of a task, whose processes run for given times in seconds."""
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)

    def play(run_times):
        nonlocal now
        run = supervise("", workers=1, max_delay_secs=60, restarts=99)
        state = run._states["chief 0"]
        found = []
        for secs in run_times:
            state.started_at = now
            now += secs
            run._handle_exit(state, 137, was_asked=False)
            found.append(state.start_at - now)
        return found

    return play


def test_restart_delay_doubles_up_to_its_limit_and_is_short_after_a_steady_run(pauses):
    assert pauses([2] * 7 + [299, 300, 2]) == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]


def test_a_restarted_task_keeps_its_tf_config(supervise, recorder, tmp_path):
    program = f"""
mark = {str(tmp_path)!r} + "/" + job
if job == "worker" and not os.path.exists(mark):
    open(mark, "w").close()
    say("first", os.environ["TF_CONFIG"])
    time.sleep(60)
while not os.path.exists(mark + "2") and job != "worker":
    time.sleep(0.02)
    mark = {str(tmp_path)!r} + "/worker"
open(mark + "2", "w").close()
say("second", os.environ["TF_CONFIG"])
"""
    run = supervise(program, restarts=1)

    def kill(name, text):
        if text.startswith("first"):
            os.kill(run.pid(name), signal.SIGKILL)

    recorder.react = kill
    assert run.run() == 0
    first, second = recorder.of("worker 0")
    assert first.partition(" ")[2] == second.partition(" ")[2]
    assert json.loads(first.partition(" ")[2])["task"] == {"type": "worker", "index": 0}
    assert run.pid("worker 0") is None


def test_only_the_evaluator_is_restarted_when_the_chief_is_done(supervise, recorder, tmp_path):
    program = f"""
if job == "ps":
    time.sleep(60)
if job == "worker" or job == "evaluator" and not os.path.exists({str(tmp_path / "mark")!r}):
    if job == "evaluator":
        open({str(tmp_path / "mark")!r}, "w").close()
    say("runs")
    time.sleep(60)
say("done")
"""
    run = supervise(program, ps=1, evaluator=True, restarts=5, grace_secs=0.5)
    seen = set()

    def react(name, text):
        if text in ("runs", "chief 0 has ended with exit code 0"):
            seen.add(name)
            if len(seen) == 3:
                for other in ("worker 0", "evaluator 0"):
                    os.kill(run.pid(other), signal.SIGKILL)

    recorder.react = react
    assert run.run() == 0
    assert [name for name, _ in pids(recorder)].count("worker 0") == 1
    assert recorder.of("evaluator 0")[-1] == "done"
    assert "ps 0 does not leave by itself and is asked to" in recorder.of("launch")
    assert "ps 0 has ended with exit code 143 (SIGTERM)" in recorder.of("launch")


SAVES = """
def save(number, frame):
    say("saved at", number)
    sys.exit(128 + number)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
say("ready")
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM)],
)
def test_a_signal_is_passed_on_to_all_tasks(supervise, recorder, number, told):
    ready = []

    def react(name, text):
        if text == "ready":
            ready.append(name)
            if len(ready) == 2:
                os.kill(os.getpid(), number)

    recorder.react = react
    before = signal.getsignal(number)
    run = supervise(SAVES, restarts=3)
    assert run.run() == 128 + number
    assert run.failed == ()
    assert signal.getsignal(number) is before
    for name in ("chief 0", "worker 0"):
        assert recorder.of(name) == ["ready", f"saved at {int(told)}"]


NEEDED = """
def save(number, frame):
    say(job, "asked")
    time.sleep(0.3 if job == "%s" else 0)
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
say("ready")
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("last", ["chief", "worker"])
def test_parameter_servers_are_asked_to_end_after_chief_and_workers(supervise, recorder, last):
    ready = []

    def react(name, text):
        if text == "ready":
            ready.append(name)
            if len(ready) == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    recorder.react = react
    assert supervise(NEEDED % last, ps=1).run() == 143
    said = [text for _, text, _ in recorder.lines if text.endswith("asked") or "ended" in text]
    ended = "{} has ended with exit code 143 (SIGTERM)".format
    assert said.index("ps asked") > said.index(ended("chief 0"))
    assert said.index("ps asked") > said.index(ended("worker 0"))


STUBBORN = """
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: say("no"))
say("ready")
while True:
    time.sleep(0.1)
"""


def test_a_second_signal_kills_all_tasks(supervise, recorder, is_alive, monkeypatch):
    monkeypatch.setattr(module, "_SAME_SIGNAL_SECS", 0)

    def react(name, text):
        if text in ("ready", "no"):
            os.kill(os.getpid(), signal.SIGTERM)

    recorder.react = react
    assert supervise(STUBBORN, workers=1, grace_secs=600).run() == 143
    assert not any(is_alive(pid) for _, pid in pids(recorder))


def test_a_repeated_signal_within_half_a_second_is_ignored(supervise, recorder, monkeypatch):
    monkeypatch.setattr(module, "_SAME_SIGNAL_SECS", 600)

    def react(name, text):
        if text in ("ready", f"saved at {int(signal.SIGINT)}"):
            os.kill(os.getpid(), signal.SIGINT)

    recorder.react = react
    assert supervise(SAVES, workers=1, grace_secs=600).run() == 130
    assert recorder.of("chief 0") == ["ready", f"saved at {int(signal.SIGINT)}"]
    assert not [text for text in recorder.of("launch") if "at once" in text.partition(";")[0]]


def test_a_task_that_ignores_signals_is_killed(supervise, recorder):
    recorder.react = lambda name, text: text == "ready" and os.kill(os.getpid(), signal.SIGINT)
    assert supervise(STUBBORN, workers=1, grace_secs=0.3).run() == 130
    assert recorder.of("chief 0") == ["ready", "no"]
    assert "chief 0 is ended by force" in recorder.of("launch")


def test_an_ignored_signal_stays_ignored(supervise, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        recorded = supervise("os.kill(os.getppid(), signal.SIGHUP)", workers=1)
        assert recorded.run() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_error_in_the_display_leaves_no_process_behind(supervise, recorder, is_alive):
    def fail(name, text):
        if text == "ready":
            raise BrokenPipeError

    recorder.react = fail
    with pytest.raises(BrokenPipeError):
        supervise("say('ready')\ntime.sleep(60)", ps=1).run()
    assert not any(is_alive(pid) for _, pid in pids(recorder))


LAUNCHER = """
import sys
from replicate.launch import Console, Supervisor, cluster_plan
plan = cluster_plan(2, 1)
program = "import time; print('ready', flush=True); time.sleep(60)"
Supervisor(plan, [sys.executable, "-c", program], Console([], sys.stdout, sys.stderr)).run()
"""


def test_tasks_end_when_the_supervisor_is_killed(is_alive, wait_until, end_later):
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started = [int(LAUNCHED.search(launcher.stderr.readline())[2]) for _ in range(3)]
    for pid in started:
        end_later(pid)
    ready = [launcher.stdout.readline() for _ in range(3)]
    assert all("ready" in line for line in ready)
    assert all(is_alive(pid) for pid in started)
    launcher.kill()
    launcher.communicate()
    wait_until(lambda: not any(is_alive(pid) for pid in started))
