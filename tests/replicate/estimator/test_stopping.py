"""The end of training: its conditions, its mark, and signals."""

import contextlib
import os
import signal
from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError, ClusterError
from replicate.estimator import RunConfig, end_marker
from replicate.estimator.end_marker import TrainingEnd, announce_end, has_ended, withdraw_end
from replicate.estimator.signals import Interruption, interruptions
from replicate.estimator.stop_conditions import StopConditions


def make_conditions(readings=None, training_end=None, **settings):
    readings = readings or SimpleNamespace(step=0, loss=None, skipped=[])
    return StopConditions(Interruption(), readings, RunConfig(**settings), training_end)


def test_signal_or_lost_cluster_cancels_waits(graph):
    lost = make_conditions()
    lost.watchdog.error = ClusterError("ps 0 is lost")
    assert lost.should_cancel_wait()
    conditions = make_conditions()
    assert not conditions.should_cancel_wait()
    assert not conditions.continues_input()
    conditions._interruption.request(15)
    assert conditions.is_interrupted()
    assert conditions.should_cancel_wait()
    assert conditions.continues_input()


def test_end_of_the_chief_cancels_waits_of_a_worker(graph, tmp_path):
    training_end = TrainingEnd(str(tmp_path))
    conditions = make_conditions(training_end=training_end, model_dir=str(tmp_path))
    assert not conditions.should_cancel_wait()
    announce_end(str(tmp_path))
    assert conditions.should_cancel_wait()
    assert not make_conditions(model_dir=str(tmp_path)).should_cancel_wait()
    for loss, is_cancelled in ((None, False), (1.0, True)):  # The marker counts after a step.
        readings = SimpleNamespace(step=0, loss=loss, skipped=[])
        late = make_conditions(readings, TrainingEnd(str(tmp_path)), model_dir=str(tmp_path))
        assert late.should_cancel_wait() == is_cancelled


@pytest.mark.parametrize("error", [tf.errors.OutOfRangeError(None, None, "end"), StopIteration()])
def test_input_that_has_ended_is_not_continued(graph, error):
    conditions = make_conditions(continue_input=True)
    assert conditions.continues_input()
    with pytest.raises(type(error)), conditions.record_end_of_input():
        raise error
    assert not conditions.continues_input()


def test_new_end_marker_differs_from_that_of_an_earlier_run(tmp_path, monkeypatch):
    withdraw_end(str(tmp_path))
    assert not has_ended(str(tmp_path))
    announce_end(str(tmp_path))
    assert has_ended(f"{tmp_path}/")
    late = TrainingEnd(str(tmp_path))
    assert not late.is_new()
    assert not late.is_final()
    withdraw_end(str(tmp_path))
    assert not late.is_new()
    monkeypatch.setattr(end_marker, "OLD_SECS", 0)
    assert not late.is_final()
    announce_end(str(tmp_path))
    assert late.is_new()
    assert late.is_final()
    again = TrainingEnd(str(tmp_path))
    assert not again.is_new()
    assert again.is_final(), "nobody has withdrawn it in time"
    with pytest.raises(CheckpointError, match=r"Cannot write .*/training_ended, .* No such file"):
        announce_end(str(tmp_path / "absent"))


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
