import os
import signal
import threading

import pytest

from replicate.errors import TrainingInterrupted
from replicate.estimator.signals import interruptions


def test_training_interrupted_carries_the_exit_code():
    error = TrainingInterrupted(signal.SIGTERM, 7, "dir/model.ckpt-7")
    assert isinstance(error, SystemExit)
    assert (error.code, error.signum) == (143, signal.SIGTERM)
    assert (error.step, error.checkpoint) == (7, "dir/model.ckpt-7")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_sets_the_flag_and_is_announced(signum, capfd):
    with interruptions() as interruption:
        assert interruption.signum is None
        signal.raise_signal(signum)
        assert interruption.signum == signum
    assert f"{signal.Signals(signum).name}: saving after this step" in capfd.readouterr().err


def test_previous_handlers_and_wakeup_descriptor_are_restored():
    def mine(signum, frame):
        del signum, frame

    before = signal.signal(signal.SIGTERM, mine)
    try:
        descriptors = len(os.listdir("/proc/self/fd"))
        with interruptions():
            assert signal.getsignal(signal.SIGTERM) is not mine
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.set_wakeup_fd(-1) == -1
        assert len(os.listdir("/proc/self/fd")) == descriptors
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_signals_are_not_handled():
    received = []
    before = signal.signal(signal.SIGUSR1, lambda signum, _: received.append(signum))
    try:
        with interruptions() as interruption:
            signal.raise_signal(signal.SIGUSR1)
            assert interruption.signum is None
        assert received == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptions() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.signum is None
    finally:
        signal.signal(signal.SIGINT, before)


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
