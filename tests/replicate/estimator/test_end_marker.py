import pytest

from replicate.errors import CheckpointError
from replicate.estimator import end_marker
from replicate.estimator.end_marker import TrainingEnd, announce_end, has_ended, withdraw_end


def test_end_marker_is_written_and_removed(tmp_path):
    assert not has_ended(str(tmp_path))
    announce_end(str(tmp_path))
    assert has_ended(f"{tmp_path}/")
    withdraw_end(str(tmp_path))
    assert not has_ended(str(tmp_path))
    withdraw_end(str(tmp_path))


def test_end_marker_that_cannot_be_written_is_one_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"Cannot write .*/training_ended, .* No such file"):
        announce_end(str(tmp_path / "absent"))


def test_training_removes_the_end_marker(linear, tmp_path):
    announce_end(str(tmp_path))
    linear.make_estimator(tmp_path).train(linear.input_fn, steps=1)
    assert not has_ended(str(tmp_path))


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
