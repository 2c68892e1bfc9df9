import signal
import subprocess
import sys
import time

from replicate.launch import guard
from replicate.launch.guard import end_groups

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


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
