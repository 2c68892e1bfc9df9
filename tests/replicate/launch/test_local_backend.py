"""Backends that start processes, and the guard that ends them."""

import os
import signal
import subprocess
import sys

import pytest

from replicate.launch import ProcessPlan, Task, guard
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


def test_arguments_reach_the_program_unchanged_and_its_input_is_empty(ended):
    hostile = ["; echo x", "$(id)", "`id`", "a b", "'", '"', "*", "--", "-c", "\n", ""]
    program = "import sys; print(sys.argv[1:], repr(sys.stdin.read()), sys.stderr.isatty())"
    process = ended(python(program, *hostile))
    assert everything(process.stdout).decode().strip() == f"{hostile} '' False"


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


def test_standard_error_with_a_bar_is_a_terminal_that_passes_text_on_unchanged(ended):
    program = r"import os, sys; sys.stderr.write(f'a\n\r{os.get_terminal_size(2).columns}')"
    assert everything(ended(python(program, bar_columns=55)).stderr) == b"a\n\r55"


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


def start(program):
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    child.stdout.readline()
    return child


def test_groups_get_sigterm_and_then_sigkill_and_ended_ones_are_not_waited_for(end_later):
    ended = start("print()")
    ended.wait()
    end_groups([ended.pid], grace_secs=600)
    gentle = start("import time; print('ready', flush=True); time.sleep(60)")
    stubborn = start(STUBBORN)
    end_later(stubborn.pid)
    end_groups([gentle.pid, stubborn.pid], grace_secs=0.3)
    assert gentle.wait(5) == -signal.SIGTERM
    assert stubborn.wait(5) == -signal.SIGKILL


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
