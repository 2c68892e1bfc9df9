import os
import signal
import sys

import pytest

from replicate.launch import ProcessPlan, Task
from replicate.launch.local_backend import Guard, LocalBackend, LocalProcess
from replicate.launch.output_streams import read_stream


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


CHILDREN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


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
