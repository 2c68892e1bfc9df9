import contextlib
import os
import signal
import threading

import pytest

from replicate.estimator.signals import interruptions


@pytest.fixture
def handle():
    """Sets the handler of a signal while a test runs."""
    with contextlib.ExitStack() as restored:

        def set_handler(signum, handler):
            restored.callback(signal.signal, signum, signal.signal(signum, handler))

        yield set_handler


def test_first_signal_sets_the_flag_and_is_announced(capfd, handle):
    handle(signal.SIGINT, signal.SIG_IGN)
    handle(signal.SIGUSR1, lambda signum, _: received.append(signum))
    received = []
    with interruptions() as interruption:
        for signum in (signal.SIGINT, signal.SIGUSR1):
            signal.raise_signal(signum)
            assert interruption.signum is None, "ignored before, or not handled here"
        signal.raise_signal(signal.SIGTERM)
        assert interruption.signum == signal.SIGTERM
    assert received == [signal.SIGUSR1]
    assert "SIGTERM: saving after this step" in capfd.readouterr().err


def test_previous_handlers_and_wakeup_descriptor_are_restored(handle):
    def mine(signum, frame):
        del signum, frame

    handle(signal.SIGTERM, mine)
    descriptors = len(os.listdir("/proc/self/fd"))
    with interruptions():
        assert signal.getsignal(signal.SIGTERM) is not mine
    assert signal.getsignal(signal.SIGTERM) is mine
    assert signal.set_wakeup_fd(-1) == -1
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_nothing_is_installed_outside_of_the_main_thread():
    handlers = []

    def run():
        with interruptions() as interruption:
            handlers.append(signal.getsignal(signal.SIGTERM))
            assert interruption.signum is None

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [before]


# A step that never ends: the main thread is inside TensorFlow, where no Python handler can run.
STUCK = """
import tensorflow as tf
from replicate.estimator import signals
from replicate.estimator.signals import interruptions
signals._SAME_SECS = {same_secs}
with tf.Graph().as_default(), tf.compat.v1.Session() as session, interruptions():
    never = tf.queue.FIFOQueue(1, tf.int32).dequeue()
    print("stuck", flush=True)
    session.run(never)
"""


@pytest.fixture
def start_interrupted(stub):
    """Starts a process that is stuck and has answered a SIGINT."""

    def start(same_secs):
        child = stub(STUCK.format(same_secs=same_secs))
        assert child.stdout.readline() == "stuck\n"
        child.send_signal(signal.SIGINT)
        while "second signal" not in child.stderr.readline():
            assert child.poll() is None
        return child

    return start


def test_second_signal_ends_the_process_at_once(start_interrupted):
    child = start_interrupted(same_secs=0)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 130


def test_repeated_signal_counts_once(start_interrupted):
    child = start_interrupted(same_secs=600)
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=60) == 143
