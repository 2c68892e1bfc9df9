"""The plugin that runs the tests of pytest-xdist's workers in child processes."""

import re

import pytest

pytestmark = pytest.mark.broad

TESTS = """
import os, signal, threading, time, warnings

import pytest

from tests.children import GROWN, LIMITS, usage

seen = []


def start(threads):
    ends = threading.Event()
    for _ in range(threads):
        threading.Thread(target=ends.wait, daemon=True).start()


@pytest.fixture(scope="module")
def shared():
    yield os.getpid()
    print("closed", os.getpid())


def test_worker_has_not_run_it(shared):
    seen.append(shared)
    assert os.getpid() == shared and os.getppid() != shared


def test_process_stays_while_it_is_small(shared):
    assert seen == [shared]
    warnings.warn("told by a test", UserWarning)
    start(GROWN.threads)


def test_process_is_new_after_it_has_grown(shared):
    assert seen != [shared] and usage().threads < GROWN.threads


def test_fails(shared):
    print("seen by the reader")
    assert [shared] == "else"


def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)


def test_hangs():
    time.sleep(60)


def test_hangs_and_ignores_its_time():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(60)


def test_grows():
    start(LIMITS.threads)


@pytest.fixture(scope="module")
def bad():
    yield
    raise RuntimeError("cannot close")


def test_after_it_a_fixture_fails(bad):
    start(GROWN.threads)


def test_last():
    pass
"""


def run_pytest(run_command, folder, tests):
    """Returns what pytest prints of a suite with one worker, whose tests fail."""
    (folder / "test_it.py").write_text(tests)
    (folder / "conftest.py").write_text("from tests import children\nchildren.GRACE_SECS = 1\n")
    options = ["-n", "1", "-p", "tests.children", "-rA", "-o", "timeout=1", "--rootdir", folder]
    command = ["-m", "pytest", "-p", "no:cacheprovider", *options, folder]
    return run_command(*command, folder=folder, code=1).stdout


def test_children_run_the_tests(tmp_path, run_command):
    printed = run_pytest(run_command, tmp_path, TESTS)
    for text in (
        "PASSED test_it.py::test_worker_has_not_run_it",
        "PASSED test_it.py::test_process_stays_while_it_is_small",
        "UserWarning: told by a test",
        "PASSED test_it.py::test_process_is_new_after_it_has_grown",
        r"(?s)AssertionError: assert \[\d+\] == 'else'.*seen by the reader",
        r"test_dies _+\n+(?:.*\n)?The process of the test was lost: it ended with code -9",
        r"FAILED test_it.py::test_hangs - Failed: Timeout \(>1.0s\)",
        r"The process of the test was lost: it did not answer within 2 s",
        r"test_it.py took its process to \d+ MB and 30\d threads",
        r"(?s)Fixtures failed when their process ended.*RuntimeError: cannot close",
        r"Largest test processes: \d+ MB \(test_it.py\), 30\d threads \(test_it.py\)",
    ):
        assert re.search(text, printed), text


def test_module_that_starts_threads_when_it_is_imported_is_refused(tmp_path, run_command):
    start = "import threading, time\nthreading.Thread(target=time.sleep, args=[9], daemon=True)"
    printed = run_pytest(run_command, tmp_path, f"{start}.start()\n")
    assert "test_it.py starts threads when it is imported" in printed
