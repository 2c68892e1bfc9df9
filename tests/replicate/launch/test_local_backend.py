import os
import signal
import sys

import pytest

from replicate.launch.local_backend import Guard, Process, read


def python(program, *arguments, **settings):
    return Process([sys.executable, "-I", "-c", program, *arguments], os.environ, **settings)


def everything(stream):
    return b"".join(iter(lambda: read(stream), b""))


@pytest.fixture
def ended():
    """Ends processes at the end of the test."""
    processes = []

    def keep(process):
        processes.append(process)
        return process

    yield keep
    for process in processes:
        process.end()
        process.close()


def test_a_program_gets_its_arguments_as_they_are(ended):
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
def test_exit_codes_are_those_of_a_shell(program, code, ended, wait_until):
    process = ended(python(program))
    wait_until(lambda: process.exit_code is not None)
    assert process.exit_code == code


def test_only_a_process_with_a_bar_sees_a_terminal(ended):
    program = "import os, sys; print(sys.stderr.isatty() and os.get_terminal_size(2).columns)"
    assert everything(ended(python(program)).stdout) == b"False\n"
    assert everything(ended(python(program, bar_columns=55)).stdout) == b"55\n"


def test_a_terminal_changes_nothing(ended):
    process = ended(python(r"import sys; sys.stderr.write('a\n\rb')", bar_columns=55))
    assert everything(process.stderr) == b"a\n\rb"


def test_input_is_empty(ended):
    process = ended(python("import sys; print(repr(sys.stdin.read()))"))
    assert everything(process.stdout) == b"''\n"


CHILDREN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_whole_group(number, ended, is_alive, wait_until):
    process = ended(python(CHILDREN))
    child = int(read(process.stdout))
    assert is_alive(child)
    process.signal(number)
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: process.exit_code == 128 + number)
    process.signal(number)


def test_a_program_that_does_not_exist_leaves_no_file_open():
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        Process(["/no/such/program"], {})
    assert os.listdir("/proc/self/fd") == before


def test_the_guard_ends_what_was_not_reported_as_ended(ended, wait_until):
    left, reported = ended(python("input(); import time", bar_columns=9)), ended(python(CHILDREN))
    with Guard(grace_secs=0.5) as guard:
        guard.started(left.pid)
        guard.started(reported.pid)
        guard.ended(reported.pid)
    assert reported.exit_code is None
    wait_until(lambda: left.exit_code is not None)
