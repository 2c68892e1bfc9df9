"""Backends that start processes, and the guard that ends them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from replicate.launch import ProcessPlan, Supervisor, Task, cluster_plan, guard
from replicate.launch.guard import end_groups
from replicate.launch.local_backend import Guard, LocalBackend, LocalProcess
from replicate.launch.output_streams import read_stream

CHILDREN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


def python(program, *arguments, **settings):
    return LocalProcess([sys.executable, "-I", "-c", program, *arguments], os.environ, **settings)


def everything(stream):
    return b"".join(iter(lambda: read_stream(stream), b""))


@pytest.fixture
def ended():
    """Ends processes at the end of the test."""
    processes = []

    def keep(process):
        processes.append(process)
        return process

    yield keep
    for process in processes:
        process.kill()
        process.close()


def test_arguments_reach_the_program_unchanged(ended):
    hostile = ["; echo x", "$(id)", "`id`", "a b", "'", '"', "*", "--", "-c", "\n", ""]
    process = ended(python("import sys; print(sys.argv[1:])", *hostile))
    assert everything(process.stdout).decode().strip() == str(hostile)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("", 0),
        ("import sys; sys.exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import sys; sys.exit(138)", 138),
    ],
)
def test_exit_codes_follow_the_shell(program, code, ended, wait_until):
    process = ended(python(program))
    wait_until(lambda: process.poll() is not None)
    assert process.poll() == code


def test_standard_error_is_a_terminal_only_with_a_bar(ended):
    program = "import os, sys; print(sys.stderr.isatty() and os.get_terminal_size(2).columns)"
    assert everything(ended(python(program)).stdout) == b"False\n"
    assert everything(ended(python(program, bar_columns=55)).stdout) == b"55\n"


def test_the_terminal_passes_text_on_unchanged(ended):
    process = ended(python(r"import sys; sys.stderr.write('a\n\rb')", bar_columns=55))
    assert everything(process.stderr) == b"a\n\rb"


def test_standard_input_is_empty(ended):
    process = ended(python("import sys; print(repr(sys.stdin.read()))"))
    assert everything(process.stdout) == b"''\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_whole_process_group(number, ended, is_alive, wait_until):
    process = ended(python(CHILDREN))
    child = int(read_stream(process.stdout))
    assert is_alive(child)
    process.send_signal(number)
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: process.poll() == 128 + number)
    process.send_signal(number)


def test_a_missing_program_leaves_no_file_open():
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        LocalProcess(["/no/such/program"], {})
    assert os.listdir("/proc/self/fd") == before


def test_the_guard_ends_only_groups_that_were_not_removed(ended, wait_until):
    left, reported = ended(python("input(); import time", bar_columns=9)), ended(python(CHILDREN))
    with Guard(grace_secs=0.5) as guard:
        guard.add(left.pid)
        guard.add(reported.pid)
        guard.remove(reported.pid)
    assert reported.poll() is None
    wait_until(lambda: left.poll() is not None)


def test_a_backend_that_was_not_entered_is_refused():
    plan = ProcessPlan(Task("worker", 0, None), [sys.executable, "-c", ""], {})
    with pytest.raises(ValueError, match="Cannot start worker 0: the LocalBackend has not been"):
        LocalBackend(1.0).start(plan)


class FakeProcess:
    """A process that has printed its lines; it ends with `code`, or waits for a signal (None)."""

    pid = None

    def __init__(self, label, lines, code):
        self.label = label
        self.signals = []
        self.killed = self.closed = False
        self._code = code
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        os.write(out, lines.encode())
        os.close(out)
        os.close(err)

    def poll(self):
        return self._code

    def send_signal(self, number):
        self.signals.append(number)
        self._code = 128 + number

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


def supervise(backend, recorder, **settings):
    plan = cluster_plan(2, 1)
    return plan, Supervisor(plan, ["train", "--x"], recorder, backend=backend, **settings)


def test_a_backend_starts_every_task_with_its_tf_config(recorder):
    backend = FakeBackend(chief=[0], worker=[0], ps=[0])
    plan, supervisor = supervise(backend, recorder, environment={"A": "1"}, bar_columns=40)
    assert supervisor.run() == 0
    assert backend.plans == [
        ProcessPlan(
            task,
            ["train", "--x"],
            {"A": "1", "TF_CONFIG": plan.tf_config(task)},
            40 if task.job == "chief" else 0,
        )
        for task in plan.tasks
    ]
    for number, task in enumerate(plan.tasks, start=1):
        assert recorder.of(str(task)) == [f"{task} prints"]
        assert f"{task} at {task.address}: job {number}" in recorder.of("launch")
    assert all(process.killed and process.closed for process in backend.processes)
    assert backend.entered == 0


def test_a_failure_signals_the_other_processes_of_the_backend(recorder):
    backend = FakeBackend(chief=[None], worker=[1], ps=[None])
    _, supervisor = supervise(backend, recorder)
    assert supervisor.run() == 1
    chief, worker, server = backend.processes
    assert (chief.signals, worker.signals, server.signals) == (
        [signal.SIGTERM],
        [],
        [signal.SIGTERM],
    )


def test_tasks_that_fail_at_once_have_all_failed(recorder):
    backend = FakeBackend(chief=[138], worker=[5], ps=[None])
    _, supervisor = supervise(backend, recorder)
    assert supervisor.run() == 138
    assert supervisor.failed == ("chief 0", "worker 0")


def test_a_process_outside_of_this_machine_has_no_pid(recorder):
    backend = FakeBackend(chief=[0], worker=[0], ps=[0])
    _, supervisor = supervise(backend, recorder)
    seen = []
    recorder.react = lambda name, text: seen.append(supervisor.pid("chief 0"))
    assert supervisor.run() == 0
    assert set(seen) == {None}


def start(program):
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    child.stdout.readline()
    return child


def test_groups_get_sigterm_and_then_sigkill(end_later):
    gentle = start("import time; print('ready', flush=True); time.sleep(60)")
    stubborn = start(STUBBORN)
    end_later(stubborn.pid)
    end_groups([gentle.pid, stubborn.pid], grace_secs=0.3)
    assert gentle.wait(5) == -signal.SIGTERM
    assert stubborn.wait(5) == -signal.SIGKILL


def test_ended_groups_are_not_waited_for():
    child = start("print()")
    child.wait()
    started = time.monotonic()
    end_groups([child.pid], grace_secs=30)
    assert time.monotonic() - started < 5


def test_the_guard_ends_remaining_groups_when_its_input_ends(end_later):
    left = start("import time; print('ready', flush=True); time.sleep(60)")
    other = start("import time; print('ready', flush=True); time.sleep(60)")
    end_later(other.pid)
    told = f"+{left.pid}\n+{other.pid}\n-{other.pid}\n+{other.pid}"  # The last line is cut off.
    subprocess.run(
        [sys.executable, "-I", guard.__file__, "0.5"], input=told, text=True, timeout=30, check=True
    )
    assert left.wait(5) == -signal.SIGTERM
    assert other.poll() is None
    other.kill()
    other.wait()
