"""Rounds of evaluation, and the specs that ask for them."""

import math
import shutil
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator import evaluation_rounds
from replicate.estimator.end_marker import announce_end
from replicate.estimator.evaluation_rounds import EvaluationRounds, follow_checkpoints
from replicate.estimator.train_specs import EvalSpec, TrainSpec, checked_listeners

v1 = tf.compat.v1


class Exporter:
    """Notes what it is told."""

    name = "noted"

    def __init__(self):
        self.told = []

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        step = int(checkpoint_path.rpartition("-")[2])
        assert eval_result["global_step"] == step
        assert export_path == f"{estimator.model_dir}/export/noted"
        self.told.append((step, is_the_final_export))
        return step


def spec(linear, exporter, **settings):
    settings = {"steps": None, "throttle_secs": 0, "start_delay_secs": 0, **settings}
    return EvalSpec(linear.once_input_fn, exporters=exporter, **settings)


@pytest.fixture(scope="module")
def trained_dir(linear, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    linear.make_estimator(path).train(linear.input_fn, max_steps=6)
    return path


@pytest.fixture
def trained(linear, trained_dir, tmp_path):
    """An Estimator trained for 6 steps, whose directory is the test's own."""
    shutil.copytree(trained_dir, tmp_path, dirs_exist_ok=True)
    return linear.make_estimator(tmp_path)


def note_evaluations(estimator, note):
    """Calls a function before each evaluation."""
    evaluate = estimator.evaluate
    estimator.evaluate = lambda *args, **kwargs: note() or evaluate(*args, **kwargs)


def test_a_round_evaluates_a_checkpoint_once_and_exports_it(linear, trained, tmp_path):
    exporter, calls = Exporter(), []
    note_evaluations(trained, lambda: calls.append(1))
    rounds = EvaluationRounds(trained, spec(linear, exporter, name="held_out"))
    rounds.run(f"{tmp_path}/model.ckpt-5")
    rounds.run(f"{tmp_path}/model.ckpt-5", is_final=True)
    rounds.run(f"{tmp_path}/model.ckpt-6")
    assert exporter.told == [(5, False), (5, True), (6, False)]
    assert (rounds.results["global_step"], rounds.exports) == (6, [6])
    assert len(calls) == 2
    assert list((tmp_path / "eval_held_out").iterdir())


class Clock:
    """A clock that only sleeping moves on; an event may happen during a nap."""

    def __init__(self, event=lambda: None, at=math.inf):
        self.now = 0
        self._event, self._at = event, at

    def monotonic(self):
        return self.now

    def sleep(self, secs):
        is_before = self.now < self._at
        self.now += secs
        if is_before and self.now >= self._at:
            self._event()


def waiting(linear, tmp_path, monkeypatch, clock, max_steps=None):
    """Evaluates until the end with a delay of 120 seconds; returns the time at the first round."""
    estimator = linear.make_estimator(tmp_path)
    monkeypatch.setattr(evaluation_rounds, "time", clock)
    exporter, begun = Exporter(), []
    settings = spec(linear, exporter, start_delay_secs=120)
    note_evaluations(estimator, lambda: begun.append(clock.now))
    follow_checkpoints(EvaluationRounds(estimator, settings), estimator, max_steps, settings)
    assert exporter.told[-1] == (6, True)
    return begun[0]


@pytest.mark.usefixtures("trained")
def test_last_checkpoint_is_evaluated_when_training_ends_or_at_once(linear, tmp_path, monkeypatch):
    assert waiting(linear, tmp_path, monkeypatch, Clock(), max_steps=6) == 0
    clock = Clock(lambda: announce_end(str(tmp_path)), at=20)
    assert waiting(linear, tmp_path, monkeypatch, clock) == 20


@pytest.mark.usefixtures("trained")
def test_old_end_marker_counts_after_the_delay(linear, tmp_path, monkeypatch, caplog):
    announce_end(str(tmp_path))
    assert waiting(linear, tmp_path, monkeypatch, Clock()) == 120
    text = "it begins 120 seconds after the start (EvalSpec.start_delay_secs), or when training"
    assert [text in record.getMessage() for record in caplog.records] == [True]


def test_evaluator_without_a_checkpoint_says_so_once(linear, tmp_path, monkeypatch, caplog):
    def end():
        linear.make_estimator(tmp_path).train(linear.input_fn, max_steps=6)
        announce_end(str(tmp_path))

    waiting(linear, tmp_path, monkeypatch, Clock(end, at=150))
    said = [record.getMessage() for record in caplog.records]
    assert said.count(f"Waiting for the first checkpoint in {tmp_path}.") == 1


def test_checkpoint_that_stays_unreadable_is_an_error(linear, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0)
    for path in tmp_path.glob("*.data-*"):
        path.write_bytes(b"short")
    settings = spec(linear, Exporter())
    with pytest.raises(CheckpointError, match="damaged file"):
        follow_checkpoints(EvaluationRounds(trained, settings), trained, 6, settings)


def test_damaged_checkpoint_is_left_out_until_training_makes_another(
    linear, trained, tmp_path, monkeypatch, caplog
):
    (tmp_path / "model.ckpt-6.data-00000-of-00001").write_bytes(b"short")
    naps = []

    def sleep(secs):
        naps.append(secs)
        if len(naps) == 15:
            trained.train(linear.input_fn, max_steps=8)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(evaluation_rounds, "time", clock)
    exporter = Exporter()
    settings = spec(linear, exporter)
    follow_checkpoints(EvaluationRounds(trained, settings), trained, 8, settings)
    assert exporter.told == [(8, True)]
    assert len(naps) == 15
    told = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("Will look again") for text in told) == 9
    assert f"Waiting for another checkpoint, since {tmp_path}/model.ckpt-6 stays damaged." in told


def test_model_directory_that_is_removed_is_an_error(linear, trained_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_rounds, "POLL_SECS", 0)
    folder = shutil.copytree(trained_dir, tmp_path / "run")
    estimator = linear.make_estimator(folder)

    class Remover(Exporter):
        def export(self, *args, **kwargs):
            super().export(*args, **kwargs)
            folder.rename(tmp_path / "away")

    settings = spec(linear, Remover())
    with pytest.raises(
        CheckpointError, match=f"{folder}, which held .*-6, was removed or replaced"
    ):
        follow_checkpoints(EvaluationRounds(estimator, settings), estimator, None, settings)


def exporter(name):
    return SimpleNamespace(name=name, export=lambda *args, **kwargs: None)


def test_one_exporter_or_listener_stands_for_a_list():
    one, listener = exporter("a"), v1.train.CheckpointSaverListener()
    assert EvalSpec(len, exporters=one).exporters == EvalSpec(len, exporters=[one]).exporters
    assert checked_listeners([listener]) == (listener,)
    assert checked_listeners(None) == ()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TrainSpec(3), TypeError, "TrainSpec: input_fn must be a function.*got 3"),
        (lambda: TrainSpec(len, max_steps=0), ValueError, "max_steps must be greater than 0"),
        (lambda: TrainSpec(len, hooks=[3]), TypeError, "TrainSpec: hooks must hold"),
        (lambda: TrainSpec(len, saving_listeners=[3]), TypeError, "saving_listeners must hold"),
        (lambda: TrainSpec(len, saving_listeners=3), TypeError, "saving_listeners must be a list"),
        (lambda: EvalSpec(None), TypeError, "EvalSpec: input_fn must be a function"),
        (lambda: EvalSpec(len, steps=-1), ValueError, "EvalSpec: steps must be greater than 0"),
        (lambda: EvalSpec(len, name=3), TypeError, "name must be a string or None, got 3"),
        (lambda: EvalSpec(len, hooks=[3]), TypeError, "EvalSpec: hooks must hold"),
        (lambda: EvalSpec(len, exporters=[3]), TypeError, "exporters must hold exporters.*got 3"),
        (lambda: EvalSpec(len, exporters=[exporter(3)]), TypeError, "exporters must hold"),
        (lambda: EvalSpec(len, exporters=[exporter("a")] * 2), ValueError, "its own name"),
        (lambda: EvalSpec(len, start_delay_secs=-1), ValueError, "start_delay_secs must be >= 0"),
        (lambda: EvalSpec(len, throttle_secs=float("nan")), ValueError, "throttle_secs must be"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()
