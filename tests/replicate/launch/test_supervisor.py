import json
import os
import re
import signal
import subprocess
import sys

import pytest

from replicate.launch import ProcessPlan, Supervisor, cluster_plan, regrouping
from replicate.launch import supervisor as module

LAUNCHED = re.compile(r"(\w+ \d)(?: as \w+ \d)?(?: at \S+)?: process (\d+)")


def pids(recorder):
    """Name and number of each process that was started, in this order."""
    found = map(LAUNCHED.fullmatch, recorder.of("launch"))
    return [(match[1], int(match[2])) for match in found if match]


class FakeProcess:
    """A process that has printed its lines; it ends with `code`, or waits for a signal (None)."""

    pid = None

    def __init__(self, label, lines, code):
        self.label = label
        self.signals = []
        self.killed = self.closed = False
        self.code = code
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        os.write(out, lines.encode())
        os.close(out)
        os.close(err)

    def poll(self):
        return self.code

    def send_signal(self, number):
        self.signals.append(number)
        self.code = 128 + number

    def kill(self):
        self.killed = True

    def close(self):
        os.close(self.stdout)
        os.close(self.stderr)
        self.closed = True


class FakeBackend:
    """A scheduler in memory: exit codes of each task's processes, in order; None waits."""

    def __init__(self, **codes):
        self.codes = codes
        self.plans = []
        self.processes = []
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        self.entered -= 1

    def start(self, plan):
        assert self.entered == 1
        self.plans.append(plan)
        label = f"job {len(self.plans)}"
        code = self.codes[plan.task.job].pop(0)
        self.processes.append(FakeProcess(label, f"{plan.task} prints\n", code))
        return self.processes[-1]


def supervise_fakes(backend, recorder, **settings):
    plan = cluster_plan(2, 1)
    settings = {"max_delay_secs": 0.05, "backend": backend, **settings}
    return plan, Supervisor(plan, ["train", "--x"], recorder, **settings)


def test_a_backend_starts_every_task_with_its_tf_config_at_a_restart_too(recorder):
    backend = FakeBackend(chief=[None], worker=[138, 0], ps=[0])
    settings = {"environment": {"A": "1"}, "bar_columns": 40, "restarts": 1}
    plan, supervisor = supervise_fakes(backend, recorder, **settings)

    def react(name, text):
        assert supervisor.pid("chief 0") is None, "it is not on this machine"
        if len(backend.plans) == 4:
            backend.processes[0].code = 0

    recorder.react = react
    assert supervisor.run() == 0
    chief, worker, server = (
        ProcessPlan(
            task,
            ["train", "--x"],
            {"A": "1", "TF_CONFIG": plan.tf_config(task)},
            40 if task.job == "chief" else 0,
        )
        for task in plan.tasks
    )
    assert backend.plans == [chief, worker, server, worker]
    for number, task in enumerate(plan.tasks, start=1):
        assert f"{task} prints" in recorder.of(str(task))
        assert f"{task} at {task.address}: job {number}" in recorder.of("launch")
    assert all(process.killed and process.closed for process in backend.processes)
    assert backend.entered == 0


@pytest.mark.parametrize(
    ("code", "restarts", "starts", "described"),
    [
        (1, 3, 1, "1"),
        (127, 3, 1, "127"),
        (137, 0, 1, "137 (SIGKILL)"),
        (137, 1, 2, "137 (SIGKILL) and has no restart left"),
        (138, 2, 3, "138 (cluster trouble) and has no restart left"),
        (250, 1, 2, "250 and has no restart left"),
    ],
)
def test_a_task_is_restarted_after_exit_codes_from_128_on_up_to_the_limit(
    recorder, code, restarts, starts, described
):
    backend = FakeBackend(chief=[None], worker=[code] * 9, ps=[None])
    _, supervisor = supervise_fakes(backend, recorder, restarts=restarts)
    assert supervisor.run() == code
    assert supervisor.failed == ("worker 0",)
    assert [str(plan.task) for plan in backend.plans].count("worker 0") == starts
    chief, worker, server, *_ = backend.processes
    assert (chief.signals, worker.signals, server.signals) == (
        [signal.SIGTERM],
        [],
        [signal.SIGTERM],
    )
    said = f"worker 0 has ended with exit code {described}: the others are asked to end"
    assert said in recorder.of("launch")


def test_workers_go_on_without_a_lost_one(recorder):
    backend = FakeBackend(chief=[138, 0], worker=[137, 138, 0])
    plan = cluster_plan(3, 0)
    settings = {"backend": backend, "environment": {}, "min_workers": 2}
    supervisor = Supervisor(plan, ["train"], recorder, **settings)
    assert supervisor.run() == 0
    assert supervisor.failed == ()
    first, *_, last = backend.plans
    before, after = (json.loads(each.environment["TF_CONFIG"]) for each in (first, last))
    assert [str(each.task) for each in backend.plans[3:]] == ["chief 0", "worker 0"]
    assert after["task"] == {"type": "worker", "index": 0}
    assert [len(after["cluster"][job]) for job in ("chief", "worker")] == [1, 1]
    ports = [each["cluster"]["chief"] + each["cluster"]["worker"] for each in (before, after)]
    assert not set(ports[0]) & set(ports[1]), "a port is free only when its process has ended"
    said = recorder.of("launch")
    assert "worker 0 has ended with exit code 137 (SIGKILL); those that are left go on" in said
    assert [text for text in said if text.startswith("worker 1 as worker 0 at 127.0.0.1:")]


@pytest.mark.parametrize(
    ("codes", "workers", "fewest", "restarts", "code", "starts"),
    [
        ({"chief": [138], "worker": [137]}, 2, 2, 0, 137, 2),  # Too few are left.
        ({"chief": [138, 0], "worker": [137, 0]}, 2, 2, 1, 0, 4),  # They wait for the lost one.
        ({"chief": [138, 0], "worker": [140, 138, 0]}, 3, 2, 0, 0, 5),  # One was cut off.
        ({"chief": [137, 0], "worker": [138, 137, 0]}, 3, 1, 0, 0, 4),  # One goes on alone.
        ({"chief": [137, 0], "worker": [134, 138, 0]}, 3, 2, 0, 0, 5),  # Aborted at its end.
        ({"chief": [138, None, 0], "worker": [137, 0]}, 2, 1, 1, 0, 5),  # It comes back.
        ({"chief": [138, 1], "worker": [137, 138, None]}, 3, 2, 9, 1, 5),  # An error ends all.
        ({"chief": [138] * 12, "worker": [138] * 12}, 2, 2, 0, 138, 22),  # All end in vain.
        ({"chief": [138] * 12, "worker": [138] * 12}, 2, 2, 5, 138, 22),  # None starts by itself.
    ],
)
def test_lost_workers_come_back_if_they_may(
    recorder, monkeypatch, codes, workers, fewest, restarts, code, starts
):
    monkeypatch.setattr(regrouping, "STEADY_SECS", 0)
    comes_back = None in codes["chief"]
    backend = FakeBackend(**codes)
    settings = {"restarts": restarts, "max_delay_secs": 0.05, "min_workers": fewest}
    plan = cluster_plan(workers, 0)
    assert Supervisor(plan, ["train"], recorder, backend=backend, **settings).run() == code
    assert len(backend.plans) == starts
    waited = "1 left, and --min_workers=2: waiting for worker 0" in recorder.of("launch")
    assert waited == (fewest == 2 and restarts == 1)
    came_back = any("worker 0 can come back: the" in text for text in recorder.of("launch"))
    assert came_back == comes_back


def test_a_stopped_worker_and_one_that_does_not_leave_are_ended_by_force(
    supervise, recorder, monkeypatch, tmp_path
):
    """The two others have not begun to train, miss nobody, and are asked to end."""
    monkeypatch.setattr(regrouping, "MISS_SECS", 0.3)
    monkeypatch.setattr(regrouping, "FOLLOW_SECS", 0.6)
    program = f"""
mark = {str(tmp_path / "mark")!r}
if len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]) == 1:
    sys.exit()
if (job, index) == ("worker", 1):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(mark, "w").close()
if (job, index) == ("worker", 0):
    while not os.path.exists(mark):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(60)
"""
    assert supervise(program, workers=4, min_workers=2).run() == 0
    for text in ("worker 0 is stopped", "worker 1 does not leave"):
        assert f"{text}: it is ended by force, and the others go on" in recorder.of("launch")
    assert [name for name, _ in pids(recorder)[4:]] == ["chief 0", "worker 2"]


def test_the_last_one_left_is_ended_by_force_if_it_hangs(
    supervise, recorder, monkeypatch, tmp_path
):
    """Nobody is left who could miss it, and it does not end when it is asked to."""
    monkeypatch.setattr(regrouping, "MISS_SECS", 0.1)
    monkeypatch.setattr(regrouping, "HANG_SECS", 0.3)
    program = f"""
mark = {str(tmp_path / "mark")!r}
if job == "chief" and not os.path.exists(mark):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(mark, "w").close()
    time.sleep(60)
while not os.path.exists(mark):
    time.sleep(0.01)
if job == "worker" and not os.path.exists(mark + "_2"):
    open(mark + "_2", "w").close()
    sys.exit(137)
"""
    settings = {"min_workers": 2, "restarts": 1, "max_delay_secs": 0.05}
    assert supervise(program, workers=2, **settings).run() == 0
    said = "chief 0 does not leave: it is ended by force, and the others go on"
    assert said in recorder.of("launch")


def test_tasks_that_fail_at_once_have_all_failed(recorder, monkeypatch):
    monkeypatch.setenv("FRUIT", "apple")
    backend = FakeBackend(chief=[138], worker=[5], ps=[None])
    _, supervisor = supervise_fakes(backend, recorder)
    assert supervisor.run() == 138
    assert supervisor.failed == ("chief 0", "worker 0")
    assert backend.plans[0].environment["FRUIT"] == "apple"


def test_a_task_that_fails_ends_the_processes_of_the_others(supervise, recorder, is_alive):
    program = "say('ready')\nif job == 'worker':\n    sys.exit(1)\ntime.sleep(60)"
    assert supervise(program, ps=1, evaluator=True, grace_secs=5).run() == 1
    started = pids(recorder)
    assert len(started) == 4
    assert not any(is_alive(pid) for _, pid in started)


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
    time.sleep(0.3 if job == "%s" else 0)
    sys.exit(128 + number)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
say("ready")
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("number", "told", "last"),
    [(signal.SIGINT, signal.SIGINT, "chief"), (signal.SIGHUP, signal.SIGTERM, "worker")],
)
def test_a_signal_is_passed_on_to_all_tasks_and_to_parameter_servers_after_the_others(
    supervise, recorder, number, told, last
):
    ready = []

    def react(name, text):
        if text == "ready":
            ready.append(name)
            if len(ready) == 3:
                os.kill(os.getpid(), number)

    recorder.react = react
    before = signal.getsignal(number)
    run = supervise(SAVES % last, ps=1, restarts=3)
    assert run.run() == 128 + number
    assert run.failed == ()
    assert signal.getsignal(number) is before
    said = [(name, text) for name, text, _ in recorder.lines]
    asked = said.index(("ps 0", f"saved at {int(told)}"))
    for name in ("chief 0", "worker 0"):
        assert recorder.of(name) == ["ready", f"saved at {int(told)}"]
        ended = f"{name} has ended with exit code {128 + told} ({told.name})"
        assert said.index(("launch", ended)) < asked


@pytest.mark.parametrize("secs", ["inf", "nan"])
def test_a_task_may_have_any_time_to_end(supervise, recorder, secs):
    def react(name, text):
        if text == "ready":
            ready.append(name)
            if len(ready) == 2:
                os.kill(os.getpid(), signal.SIGINT)

    ready = []
    recorder.react = react
    run = supervise(COUNTS, workers=1, ps=1, grace_secs=float(secs))
    assert run.run() == 130
    assert run.failed == ()
    assert recorder.of("ps 0") == ["ready", "asked once"]


COUNTS = """
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
say("ready")
while not asked:
    time.sleep(0.02)
deadline = time.monotonic() + 0.6 * (job == "ps")
while len(asked) == 1 and time.monotonic() < deadline:
    time.sleep(0.02)
say("asked", "once" if len(asked) == 1 else "again")
sys.exit(130)
"""


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
    assert supervise(SAVES % "nobody", workers=1, grace_secs=600).run() == 130
    assert recorder.of("chief 0") == ["ready", f"saved at {int(signal.SIGINT)}"]
    assert not [text for text in recorder.of("launch") if "at once" in text.partition(";")[0]]


def test_a_hang_up_does_not_hurry_tasks_that_save(supervise, recorder, monkeypatch):
    monkeypatch.setattr(module, "_SAME_SIGNAL_SECS", 0)

    def react(name, text):
        number = {"ready": signal.SIGINT, f"saved at {int(signal.SIGINT)}": signal.SIGHUP}.get(text)
        if number is not None:
            os.kill(os.getpid(), number)

    recorder.react = react
    assert supervise(SAVES % "nobody", workers=1, grace_secs=600).run() == 130
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
        [sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
