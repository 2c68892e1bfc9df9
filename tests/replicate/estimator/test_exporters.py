import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import EvalSpec, TrainSpec, train_and_evaluate
from replicate.estimator.evaluating import write_results
from replicate.estimator.exporters import BestExporter, Exporter, FinalExporter, LatestExporter
from replicate.estimator.hooks.event_file import EventFiles
from replicate.export import TensorServingInputReceiver

v1 = tf.compat.v1


def receive():
    features = v1.placeholder(tf.float32, [None, 3])
    return TensorServingInputReceiver(features, features)


class Recorder:
    """Stands for an Estimator whose exports are empty directories."""

    def __init__(self, model_dir):
        self.model_dir = str(model_dir)
        self.version = 100
        self.arguments = None

    def export_saved_model(self, base, receiver_fn, **arguments):
        self.version += 1
        self.arguments = arguments
        path = os.path.join(os.fsdecode(base), str(self.version))
        os.makedirs(path)
        return path.encode()


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path)


@pytest.fixture
def run(recorder, tmp_path):
    """Runs an exporter after an evaluation; returns whether it exported."""

    def export(exporter, result, final=False):
        path = exporter.export(recorder, f"{tmp_path}/out", "model.ckpt-1", result, final)
        return path is not None

    return export


def kept(tmp_path):
    return sorted(os.listdir(tmp_path / "out"))


def exported(tmp_path):
    """Leaves an export of an earlier run."""
    os.makedirs(tmp_path / "out/99")


def logged(tmp_path, step, **results):
    write_results(f"{tmp_path}/eval", {**results, "global_step": step}, EventFiles())


def test_final_exporter_waits_for_the_end(run, recorder):
    exporter = FinalExporter("final", receive, assets_extra={"a": "b"}, as_text=True)
    assert exporter.name == "final"
    assert [run(exporter, {}, final) for final in (False, False, True)] == [False, False, True]
    assert recorder.arguments == {
        "assets_extra": {"a": "b"},
        "as_text": True,
        "checkpoint_path": "model.ckpt-1",
    }


def test_latest_exporter_keeps_the_newest_or_all(run, recorder, tmp_path):
    os.makedirs(tmp_path / "out/temp-7")
    all_exporter = LatestExporter("latest", receive, exports_to_keep=None)
    assert all(run(all_exporter, None) for _ in range(7))
    assert len(kept(tmp_path)) == 8
    exporter = LatestExporter("latest", receive, exports_to_keep=2)
    exporter.export(recorder, f"{tmp_path}/out/".encode(), "model.ckpt-1", None, False)
    assert kept(tmp_path) == ["107", "108", "temp-7"]


def test_best_exporter_exports_improvements(run, tmp_path):
    exporter = BestExporter("best", receive, exports_to_keep=2)
    losses = [float("nan"), 3.0, 4.0, 3.0, 2.0, float("nan"), 1.5]
    exports = [run(exporter, {"loss": loss, "global_step": 1}) for loss in losses]
    assert exports == [True, True, False, False, True, False, True]
    assert kept(tmp_path) == ["103", "104"]


def test_best_exporter_compares_as_it_is_told_and_remembers_through_restarts(run, tmp_path):
    def higher(best_eval_result, current_eval_result):
        return current_eval_result["accuracy"] > best_eval_result["accuracy"]

    exported(tmp_path)
    for step, accuracy in ((10, 0.3), (20, 0.9), (30, 0.6)):
        logged(tmp_path, step, accuracy=accuracy)
    exporter = BestExporter("best", receive, compare_fn=higher)
    logged(tmp_path, 40, accuracy=0.8)  # evaluate() logs a result before the exporter sees it
    assert not run(exporter, {"accuracy": 0.8, "global_step": 40})
    logged(tmp_path, 50, accuracy=0.95)
    exporter = BestExporter("best", receive, compare_fn=higher)
    assert run(exporter, {"accuracy": 0.95, "global_step": 50})


def test_best_exporter_given_to_a_resumed_run_exports_once(run, tmp_path):
    logged(tmp_path, 10, loss=1.0)
    os.makedirs(tmp_path / "out/temp-7")
    exporter = BestExporter("best", receive)
    losses = [3.0, 4.0, 2.0]
    exports = [run(exporter, {"loss": loss, "global_step": 20}) for loss in losses]
    assert exports == [True, False, True]


def test_event_files_are_read_as_far_as_they_are_whole_unless_that_is_not_wanted(
    run, tmp_path, caplog
):
    exported(tmp_path)
    logged(tmp_path, 10, loss=1.0)
    (path,) = (tmp_path / "eval").glob("*tfevents*")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:20])
    worse = {"loss": 2.0, "global_step": 20}
    assert not run(BestExporter("best", receive), worse)
    assert "ends in the middle of an event" in caplog.text
    assert run(BestExporter("best", receive, event_file_pattern=None), worse)


def test_stand_in_for_an_estimator_gets_the_path_as_given(tmp_path):
    given, result = [], object()

    def export(*arguments, **_):
        given.append(arguments)
        return result

    stand_in = SimpleNamespace(model_dir=str(tmp_path), export_saved_model=export)
    exporter = LatestExporter("x", receive)
    assert exporter.export(stand_in, "absent/", "model.ckpt-1", {}, False) is result
    assert given == [("absent/", receive)]


def test_evaluation_repeated_after_a_restart_is_not_exported_again(run, tmp_path):
    exported(tmp_path)
    logged(tmp_path, 10, loss=1.0)
    assert run(BestExporter("best", receive), {"loss": 1.0, "global_step": 10}), "the first one"
    logged(tmp_path, 10, loss=1.0)
    assert not run(BestExporter("best", receive), {"loss": 1.0, "global_step": 10})


def test_train_and_evaluate_exports(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path)
    exporters = [
        LatestExporter("latest", receive, exports_to_keep=1),
        FinalExporter("final", receive),
        BestExporter("best", receive),
    ]
    eval_spec = EvalSpec(linear.once_input_fn, exporters=exporters, throttle_secs=0)
    train_and_evaluate(estimator, TrainSpec(linear.input_fn, max_steps=6), eval_spec)
    assert sorted(os.listdir(tmp_path / "export")) == ["best", "final", "latest"]
    assert len(os.listdir(tmp_path / "export/latest")) == 1
    (version,) = os.listdir(tmp_path / "export/final")
    loaded = tf.saved_model.load(f"{tmp_path}/export/final/{version}")
    weights, bias = linear.trained(6)
    outputs = loaded.signatures["serving_default"](input=tf.constant(linear.X))["y"]
    np.testing.assert_allclose(outputs, linear.X @ weights + bias, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (Exporter, TypeError, "abstract"),
        (lambda: FinalExporter("", receive), ValueError, "must have a name"),
        (lambda: FinalExporter("a", None), TypeError, "serving_input_receiver_fn must be a func"),
        (lambda: LatestExporter("a", receive, exports_to_keep=0), ValueError, "greater than 0"),
        (lambda: BestExporter("a"), TypeError, "serving_input_receiver_fn must be .* got None"),
        (lambda: BestExporter("a", receive, compare_fn=3), TypeError, "compare_fn must be"),
        (lambda: BestExporter("a", receive, compare_fn=lambda best, current: True), ValueError,
         "must take the arguments best_eval_result and current_eval_result"),
    ],
)  # fmt: skip
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_results_that_cannot_be_compared(run):
    exporter = BestExporter("best", receive)
    with pytest.raises(ValueError, match="eval_result is None"):
        run(exporter, None)
    run(exporter, {"loss": 1.0})
    with pytest.raises(ValueError, match=r"the current one has only \['accuracy'\]"):
        run(exporter, {"accuracy": 1.0})
