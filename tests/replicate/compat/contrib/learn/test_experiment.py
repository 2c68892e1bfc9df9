"""Experiments, their runner, exports and metrics."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.contrib import learn
from replicate.compat.contrib.learn import learn_runner

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("plain_sessions")


def model_fn(features, labels, mode):
    w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    predictions = w * features["x"][:, 0]
    if mode == "infer":
        return replicate.EstimatorSpec(
            mode,
            predictions=predictions,
            export_outputs={"serving_default": replicate.export.PredictOutput(predictions)},
        )
    loss = v1.losses.mean_squared_error(labels, predictions)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, v1.train.get_or_create_global_step()
    )
    return replicate.EstimatorSpec(
        mode, predictions={"y": predictions}, loss=loss, train_op=train_op
    )


def input_fn():
    x = np.array([[1.0], [2.0]], "f4")
    return tf.data.Dataset.from_tensors(({"x": x}, 3 * x[:, 0])).repeat()


def experiment(folder, **settings):
    config = replicate.RunConfig(str(folder), save_checkpoints_steps=2, progress="off")
    values = {"train_steps": 4, "eval_steps": 1, **settings}
    estimator = replicate.Estimator(model_fn, config=config)
    return learn.Experiment(estimator, input_fn, input_fn, **values)


def loss(step):
    """The loss after a step: the distance to 3 shrinks by half."""
    return 2.5 * (3 * 0.5**step) ** 2


def evaluated(folder):
    return sorted(
        event.step
        for path in folder.glob("eval/events*")
        for event in v1.train.summary_iterator(str(path))
        if event.HasField("summary")
    )


def test_train_and_evaluate_evaluates_checkpoints_and_exports(tmp_path):
    serving = learn.build_parsing_serving_input_fn({"x": tf.io.FixedLenFeature([1], tf.float32)})
    strategy = learn.make_export_strategy(serving, exports_to_keep=1)
    made = experiment(
        tmp_path,
        export_strategies=[strategy],
        eval_metrics={
            "error": learn.MetricSpec(v1.metrics.mean_absolute_error, prediction_key="y")
        },
    )
    results, (path,) = learn_runner.run(
        lambda run_config, hparams: made, run_config=made.estimator.config, schedule=None
    )
    np.testing.assert_allclose(results["loss"], loss(4), rtol=1e-4)
    np.testing.assert_allclose(results["error"], 1.5 * 3 * 0.5**4, rtol=1e-4)
    assert set(evaluated(tmp_path)) == {2, 4}
    assert path.decode().startswith(str(tmp_path / "export" / "Servo"))
    made.train_and_evaluate()
    assert len(list((tmp_path / "export" / "Servo").iterdir())) == 1


def test_steps_and_evaluations_in_turn(tmp_path):
    seen = []

    def predicate(results):
        seen.append(results and results["global_step"])
        return True

    made = experiment(tmp_path, train_steps_per_iteration=3)
    results, _ = made.continuous_train_and_eval(predicate)
    assert seen == [None, 3, 4]
    assert results["global_step"] == 4


def test_train_evaluate_and_follow(tmp_path):
    hook = v1.train.StopAtStepHook(num_steps=3)
    made = experiment(tmp_path, continuous_eval_throttle_secs=0, eval_delay_secs=0)
    made.extend_train_hooks([hook])
    learn_runner.run(lambda path: made, str(tmp_path), schedule="train")
    assert made.evaluate(name="now")["global_step"] == 3
    results, _ = made.continuous_eval(continuous_eval_predicate_fn=lambda results: not results)
    assert results["global_step"] == 3
    experiment(tmp_path).train(delay_secs=5)
    results, _ = made.continuous_eval_on_train_data()
    np.testing.assert_allclose(results["loss"], loss(4), rtol=1e-4)
    assert made.local_run()[0]["global_step"] == 4
    assert (made.train_steps, made.eval_steps, made.eval_metrics) == (4, 1, None)


def test_test_makes_one_step_and_frequency_0_evaluates_once(tmp_path):
    calls = []
    strategy = learn.ExportStrategy("mine", lambda estimator, path: calls.append(path))
    made = experiment(tmp_path, export_strategies=strategy, min_eval_frequency=0)
    assert made.test()[0]["global_step"] == 1
    assert calls == [str(tmp_path / "export" / "mine")]
    assert made.reset_export_strategies() == [strategy]
    assert made.train_and_evaluate()[0]["global_step"] == 4
    assert set(evaluated(tmp_path)) == {4}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, "a"), TypeError, "experiment_fn=3"),
        ((experiment,), ValueError, "output_dir or run_config"),
        ((experiment, "a", None, 1), ValueError, "output_dir or run_config"),
        ((experiment, "a", None, None, 1), ValueError, "together with a run_config"),
        ((experiment, None, None, learn_runner.TaskType), AttributeError, "model_dir"),
        ((lambda path: 3, "a"), TypeError, "must return a tf.contrib.learn.Experiment, got 3"),
        ((experiment, "a", "fly"), ValueError, "no schedule 'fly'.*train_and_evaluate"),
    ],
)
def test_messages_of_the_runner(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        learn_runner.run(*arguments)


def test_messages_of_the_experiment(tmp_path):
    with pytest.raises(TypeError, match="takes an Estimator, got 3"):
        learn.Experiment(3, input_fn, input_fn)
    with pytest.raises(TypeError, match="takes an ExportStrategy, got 3"):
        experiment(tmp_path, export_strategies=[3])
    with pytest.raises(ValueError, match="needs a cluster"):
        experiment(tmp_path).run_std_server()


def test_metric_spec_calls_by_the_names_of_arguments():
    features, labels = {"w": 2}, {"a": 1, "b": 5}

    def by_name(predictions, labels, weights=None):
        return predictions, labels, weights

    def of_targets(predictions, targets):
        return predictions, targets

    def by_place(one, other):
        return one, other

    spec = learn.MetricSpec(by_name, "p", "b", "w")
    assert spec.create_metric_ops(features, labels, {"p": 7, "q": 8}) == (7, 5, 2)
    assert learn.MetricSpec(of_targets).create_metric_ops({}, 3, {"p": 7}) == (7, 3)
    assert learn.MetricSpec(by_place).create_metric_ops({}, 3, 4) == (4, 3)
    with pytest.raises(ValueError, match=r"label_key=None, but there are \['a', 'b'\]"):
        learn.MetricSpec(by_place).create_metric_ops({}, labels, 4)
