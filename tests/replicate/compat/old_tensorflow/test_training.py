"""Parts of training and evaluation that libraries take from private modules."""

import json

import pytest
import tensorflow as tf

import replicate
from replicate.compat.old_tensorflow import training
from replicate.compat.old_tensorflow.exported_names import usage_counter

v1 = tf.compat.v1


def model_fn(features, mode):
    loss = v1.get_variable("w", []) * 1.0
    step = v1.train.get_global_step()
    return replicate.EstimatorSpec(mode, {"w": loss}, loss, v1.assign_add(step, 1).op)


def estimator_in(folder, **settings):
    config = replicate.RunConfig(str(folder), progress="off", **settings)
    return replicate.Estimator(model_fn, config=config)


def input_fn():
    return tf.data.Dataset.from_tensors(1.0).repeat(2)


def test_executor_trains_and_tells_a_listener_of_an_evaluator(tmp_path, monkeypatch):
    train = replicate.TrainSpec(input_fn, 2)
    evaluate = replicate.EvalSpec(input_fn, 1, start_delay_secs=0, throttle_secs=0)
    training.TrainingExecutor(estimator_in(tmp_path), train, evaluate).run()
    assert training.load_global_step(str(tmp_path)) == 2
    cluster = {"task": {"type": "evaluator", "index": 0}, "cluster": {"chief": ["localhost:1"]}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    told = []

    class Listener(training.ContinuousEvalListener):
        def after_eval(self, eval_result):
            told.append(eval_result)
            return False

    executor = training.TrainingExecutor(
        estimator_in(tmp_path), train, evaluate, continuous_eval_listener=Listener()
    )
    results, exports = executor.run()
    assert results["global_step"] == 2
    assert exports == []
    assert [each.checkpoint_path for each in told] == [f"{tmp_path}/model.ckpt-2"]
    before = type("Before", (Listener,), {"before_eval": lambda self: False})()
    executor = training.TrainingExecutor(
        executor.estimator, train, evaluate, continuous_eval_listener=before
    )
    assert executor.run() == (None, [])
    assert len(told) == 1


def test_checks_and_configs(tmp_path):
    assert training.load_global_step(str(tmp_path)) == 0
    assert not training.should_run_distribute_coordinator(None)
    training.verify_model_fn_args(model_fn, None)
    with pytest.raises(ValueError, match="must take the argument params"):
        training.verify_model_fn_args(model_fn, {})
    with pytest.raises(TypeError, match="must be an EvalSpec"):
        training.assert_eval_spec(3)
    chosen = training.maybe_overwrite_model_dir_and_session_config
    assert chosen(None, str(tmp_path)).model_dir == str(tmp_path)
    with pytest.raises(ValueError, match="give one of them"):
        chosen(replicate.RunConfig("a"), "b")
    usage_counter.get_cell("Classifier").set("DNN")
    exporter = training.SavedModelExporter("all", input_fn)
    assert exporter.name == "all"
    assert isinstance(exporter, replicate.Exporter)
