from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.errors import ClusterError, NonFiniteError
from replicate.estimator import RunConfig
from replicate.estimator.end_marker import TrainingEnd, announce_end
from replicate.estimator.signals import Interruption
from replicate.estimator.stop_conditions import StopConditions


def make_conditions(readings=None, training_end=None, **settings):
    readings = readings or SimpleNamespace(step=0, loss=None, skipped=[])
    return StopConditions(Interruption(), readings, RunConfig(**settings), training_end)


def test_signal_cancels_waits_and_continues_the_input(graph):
    conditions = make_conditions()
    assert not conditions.should_cancel_wait()
    assert not conditions.continues_input()
    conditions._interruption.request(15)
    assert conditions.is_interrupted()
    assert conditions.should_cancel_wait()
    assert conditions.continues_input()


def test_lost_cluster_cancels_waits(graph):
    conditions = make_conditions()
    conditions.watchdog.error = ClusterError("ps 0 is lost")
    assert conditions.should_cancel_wait()


def test_end_of_the_chief_cancels_waits_of_a_worker(graph, tmp_path):
    training_end = TrainingEnd(str(tmp_path))
    conditions = make_conditions(training_end=training_end, model_dir=str(tmp_path))
    assert not conditions.should_cancel_wait()
    announce_end(str(tmp_path))
    assert conditions.should_cancel_wait()
    assert not make_conditions(model_dir=str(tmp_path)).should_cancel_wait()


@pytest.mark.parametrize(("loss", "is_cancelled"), [(None, False), (1.0, True)])
def test_old_end_marker_counts_after_the_first_step(graph, tmp_path, loss, is_cancelled):
    announce_end(str(tmp_path))
    readings = SimpleNamespace(step=0, loss=loss, skipped=[])
    training_end = TrainingEnd(str(tmp_path))
    conditions = make_conditions(readings, training_end, model_dir=str(tmp_path))
    assert conditions.should_cancel_wait() == is_cancelled


@pytest.mark.parametrize("error", [tf.errors.OutOfRangeError(None, None, "end"), StopIteration()])
def test_input_that_has_ended_is_not_continued(graph, error):
    conditions = make_conditions(continue_input=True)
    assert conditions.continues_input()
    with pytest.raises(type(error)), conditions.record_end_of_input():
        raise error
    assert not conditions.continues_input()


def test_loss_that_is_not_finite_is_an_error(graph):
    loss = SimpleNamespace(op=SimpleNamespace(name="loss"))
    readings = SimpleNamespace(step=3, loss=float("nan"), skipped=[], loss_tensor=loss)
    with pytest.raises(NonFiniteError, match="step 3"):
        make_conditions(readings).check_step()
