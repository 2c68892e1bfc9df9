"""When training stops, and the mark that it has ended."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError, ClusterError
from replicate.estimator import RunConfig, end_marker
from replicate.estimator.end_marker import TrainingEnd, announce_end, has_ended, withdraw_end
from replicate.estimator.signals import Interruption
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


def test_end_marker_is_written_and_removed(tmp_path):
    assert not has_ended(str(tmp_path))
    announce_end(str(tmp_path))
    assert has_ended(f"{tmp_path}/")
    withdraw_end(str(tmp_path))
    assert not has_ended(str(tmp_path))
    withdraw_end(str(tmp_path))
    with pytest.raises(CheckpointError, match=r"Cannot write .*/training_ended, .* No such file"):
        announce_end(str(tmp_path / "absent"))


def test_new_end_marker_differs_from_that_of_an_earlier_run(tmp_path, monkeypatch):
    announce_end(str(tmp_path))
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
