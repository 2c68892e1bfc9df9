"""TPUEstimator: batch sizes in params, towers, and the same numbers as a plain Estimator."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import tpu

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("plain_sessions")

ROWS = np.random.default_rng(0).normal(size=[24, 3]).astype("f4")
LABELS = (ROWS @ np.array([1.0, 2.0, 3.0]) > 0).astype("f4")
TWO = ["/cpu:0", "/cpu:1"]


def config(**settings):
    return tpu.RunConfig(progress="off", **settings)


def input_fn(params, mode):
    data = tf.data.Dataset.from_tensor_slices((ROWS, LABELS))
    data = data.repeat() if mode == "train" else data
    return data.batch(params["batch_size"])


def metrics(labels, logits):
    hits = v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32))
    return {"accuracy": hits, "rows": v1.metrics.mean(tf.cast(tf.size(labels), tf.float32))}


def losses(features, labels):
    weights = v1.get_variable("weights", [3], initializer=v1.initializers.constant([0.3, 0.2, 0.1]))
    logits = tf.linalg.matvec(features, weights)
    if labels is None:
        return None, logits
    return v1.losses.sigmoid_cross_entropy(labels, logits), logits


def tpu_model_fn(features, labels, mode, params):
    loss, logits = losses(features, labels)
    if mode == "infer":
        nothing = lambda: None, []
        return tpu.TPUEstimatorSpec(mode, predictions={"logits": logits}, host_call=nothing)
    optimizer = tpu.CrossShardOptimizer(v1.train.AdamOptimizer(params["rate"]))
    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, v1.train.get_global_step()),
        eval_metrics=(metrics, [labels, logits]),
    )


def plain_model_fn(features, labels, mode, params):
    loss, logits = losses(features, labels)
    if mode == "infer":
        return replicate.EstimatorSpec(mode, predictions={"logits": logits})
    return replicate.EstimatorSpec(
        mode,
        loss=loss,
        train_op=v1.train.AdamOptimizer(params["rate"]).minimize(loss, v1.train.get_global_step()),
        eval_metric_ops=metrics(labels, logits),
    )


def make(model_fn, folder, **settings):
    sizes = {"train_batch_size": 8, "eval_batch_size": 7, "predict_batch_size": 5}
    given = {"config": config(), "params": {"rate": 0.1}, "use_tpu": False, **sizes, **settings}
    return tpu.TPUEstimator(model_fn, str(folder), **given)


@pytest.fixture(scope="module")
def plain(plain_sessions, tmp_path_factory):
    """Weights, measures and logits of a plain Estimator with the same model and batches."""
    estimator = replicate.Estimator(
        plain_model_fn,
        str(tmp_path_factory.mktemp("plain")),
        replicate.RunConfig(progress="off"),
        {"rate": 0.1},
    )

    def batches_of(size):
        return lambda mode: input_fn({"batch_size": size}, mode)

    estimator.train(batches_of(8), steps=5)
    return types.SimpleNamespace(
        weights=estimator.get_variable_value("weights"),
        results=estimator.evaluate(batches_of(7)),
        logits=[each["logits"] for each in estimator.predict(batches_of(5))],
    )


def check_numbers(estimator, plain, rows, **tolerance):
    """Compares weights, results and predictions; `rows` is the mean number of rows of a batch."""
    close = functools.partial(np.testing.assert_allclose, **{"rtol": 0, **tolerance})
    close(estimator.get_variable_value("weights"), plain.weights)
    results = estimator.evaluate(input_fn)
    assert results.keys() == plain.results.keys()
    for name, value in results.items():
        close(value, rows if name == "rows" else plain.results[name], err_msg=name)
    logits = [each["logits"] for each in estimator.predict(input_fn)]
    assert len(logits) == len(ROWS)
    close(logits, plain.logits)


def test_numbers_are_those_of_a_plain_estimator(plain, tmp_path):
    """Batches of 7, 7, 7 and 3 rows: nothing is padded or dropped."""

    def model_fn(rate, features, labels, mode, params):
        assert params["batch_size"] == {"train": 8, "eval": 7, "infer": 5}[mode]
        return tpu_model_fn(features, labels, mode, {**params, "rate": rate})

    estimator = make(functools.partial(model_fn, 0.1), tmp_path, params=None)
    results, _ = replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(input_fn, max_steps=5),
        replicate.EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0),
    )
    assert results == plain.results
    check_numbers(estimator, plain, rows=6)
    again = make(tpu_model_fn, tmp_path / "second", warm_start_from=estimator.model_dir)
    assert again.evaluate(input_fn)["loss"] == plain.results["loss"]


def test_subclass_on_one_tower_may_have_a_plain_model_fn(plain, tmp_path):
    class OwnEstimator(tpu.TPUEstimator):
        def __init__(self, folder):
            sizes = {"train_batch_size": 8, "eval_batch_size": 7, "predict_batch_size": 5}
            super().__init__(model_fn, folder, config(), use_tpu=False, devices=TWO[:1], **sizes)

    def model_fn(features, labels, mode):
        return plain_model_fn(features, labels, mode, {"rate": 0.1})

    estimator = OwnEstimator(str(tmp_path))
    assert estimator.train(input_fn, max_steps=5) is estimator
    assert estimator.params == {}
    assert estimator.config.tpu_config == tpu.TPUConfig()
    assert estimator._model_dir == str(tmp_path)
    np.testing.assert_array_equal(estimator.get_variable_value("weights"), plain.weights)


@pytest.mark.parametrize(
    "function", [tpu_model_fn, pytest.param(plain_model_fn, marks=pytest.mark.broad)]
)
def test_two_towers_train_as_one_device(function, plain, tmp_path):
    """`input_fn` sees the size of the batch, `model_fn` that of its tower."""
    seen, given = [], {"rate": 0.1}

    def model_fn(features, labels, mode, params):
        seen.append((mode, params["batch_size"], params["use_tpu"]))
        return function(features, labels, mode, params)

    estimator = make(model_fn, tmp_path, devices=TWO, params=given).train(input_fn, max_steps=5)
    check_numbers(estimator, plain, rows=3, rtol=1e-5)
    sizes = [("train", 4), ("train", 4), ("eval", 4), ("eval", 3), ("infer", 3), ("infer", 3)]
    assert seen == [(*size, False) for size in sizes]
    assert given == estimator.params == {"rate": 0.1}


def test_padded_towers_have_equal_batch_sizes(tmp_path):
    sizes = []

    def model_fn(features, labels, mode, params):
        sizes.append((params["batch_size"], features.shape[0]))
        return tpu_model_fn(features, labels, mode, params)

    estimator = make(model_fn, tmp_path, devices=TWO, uneven="pad")
    estimator.evaluate(lambda params: (ROWS[: params["batch_size"]], LABELS[:7]), steps=1)
    assert sizes == [(4, 4), (4, 4)]


def test_params_have_no_batch_size_without_one_and_in_exports(tmp_path):
    seen = []

    def own_input(params, mode):
        seen.append(dict(params))
        return {"x": ROWS}, LABELS

    def model_fn(features, labels, mode, params):
        seen.append(dict(params))
        return tpu_model_fn(features["x"], labels, mode, params)

    settings = {"train_batch_size": None, "export_to_tpu": True, "export_to_cpu": False}
    estimator = make(model_fn, tmp_path, **settings).train(own_input, steps=1)
    receive = replicate.export.build_raw_serving_input_receiver_fn({"x": ROWS})
    path = estimator.export_saved_model(str(tmp_path / "export"), receive)
    assert seen == [{"rate": 0.1}, *[{"rate": 0.1, "use_tpu": False}] * 2]
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    expected = ROWS @ estimator.get_variable_value("weights")
    np.testing.assert_allclose(serve(x=tf.constant(ROWS))["logits"], expected, rtol=1e-5)


class HParams(types.SimpleNamespace):
    """Hyper-parameters, as tf.contrib.training had them."""

    def __contains__(self, name):
        return name in vars(self)

    def add_hparam(self, name, value):
        assert name not in self
        setattr(self, name, value)

    def set_hparam(self, name, value):
        assert name in self
        setattr(self, name, value)


def test_params_may_be_hparams(tmp_path):
    sizes = []

    def own_input(params, mode):
        return input_fn({"batch_size": params.batch_size}, mode)

    def model_fn(features, labels, mode, params):
        sizes.append((params.batch_size, params.use_tpu))
        return tpu_model_fn(features, labels, mode, {"rate": params.rate})

    given = HParams(rate=0.1, use_tpu=True)
    make(model_fn, tmp_path, params=given, devices=TWO).train(own_input, steps=1)
    assert sizes == [(4, False)] * 2
    assert "batch_size" not in given
    assert given.use_tpu is True


def test_evaluation_in_memory_and_added_metrics_have_the_batch_size(plain, tmp_path):
    def added(labels):
        return {"labels": v1.metrics.mean(labels)}

    estimator = replicate.add_metrics(make(tpu_model_fn, tmp_path), added)
    hook = replicate.InMemoryEvaluatorHook(estimator, input_fn, every_n_iter=5)
    estimator.train(input_fn, hooks=[hook], max_steps=5)
    found = replicate.read_eval_metrics(estimator.eval_dir())[5]
    np.testing.assert_allclose(found["accuracy"], plain.results["accuracy"])
    np.testing.assert_allclose(found["rows"], 6)
    np.testing.assert_allclose(found["labels"], LABELS.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"use_tpu": True}, ValueError, r"use_tpu=True needs a TPU, and .* pass use_tpu=False"),
        ({"params": {"batch_size": 3}}, ValueError, r"params must not contain 'batch_size', .*"),
        ({"params": 3}, TypeError, r"params must be a dict or HParams, .* got 3\. Pass a dict\."),
        ({"train_batch_size": 0}, ValueError, r"train_batch_size must be .* >= 1 or None, got 0\."),
        ({"eval_batch_size": 2.5}, ValueError, r"eval_batch_size must be .*, got 2\.5\."),
        ({"predict_batch_size": True}, ValueError, r"predict_batch_size must be .*, got True\."),
        ({"config": replicate.RunConfig()}, TypeError, r"config must be a replicate\.tpu\.RunConf"),
        ({"embedding_config_spec": 1}, ValueError, r"embedding_config_spec=1 keeps tables on a T"),
        ({"experimental_embedding_config_spec": 1}, ValueError, r"embedding_config_spec=1 keeps"),
    ],
)
def test_wrong_arguments_are_refused(settings, error, text, tmp_path):
    with pytest.raises(error, match=f"^TPUEstimator: {text}"):
        make(tpu_model_fn, tmp_path, **settings)


def test_use_tpu_is_refused_by_default():
    with pytest.raises(ValueError, match="use_tpu"):
        tpu.TPUEstimator(tpu_model_fn, config=config(), train_batch_size=8)


def test_errors_of_a_model_fn_name_the_users_function(tmp_path):
    def model_fn(features, mode, params):
        return None

    estimator = make(model_fn, tmp_path)
    name = r"model_fn .*\.model_fn \(.*test_estimator\.py:\d+\)"
    with pytest.raises(ValueError, match=f"{name} does"):
        estimator.train(input_fn, steps=1)
    with pytest.raises(TypeError, match=f"{name} must return a replicate\\.Est"):
        list(estimator.predict(input_fn))
