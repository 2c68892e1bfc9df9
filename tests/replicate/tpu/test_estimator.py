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
        return tpu.TPUEstimatorSpec(mode, predictions={"logits": logits})
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


@pytest.mark.parametrize("devices", [None, TWO[:1], TWO])
def test_numbers_are_those_of_a_plain_estimator(devices, plain, tmp_path):
    estimator = make(tpu_model_fn, tmp_path, devices=devices)
    assert estimator.train(input_fn, max_steps=5) is estimator
    exact = devices != TWO
    close = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    tolerance = {} if exact else {"rtol": 1e-5}
    close(estimator.get_variable_value("weights"), plain.weights, **tolerance)
    results = estimator.evaluate(input_fn)
    rows = results.pop("rows")
    assert results.keys() | {"rows"} == plain.results.keys()
    assert results["global_step"] == 5
    for name, value in results.items():
        close(value, plain.results[name], err_msg=name, **tolerance)
    # Batches of 7, 7, 7 and 3 rows: nothing is padded or dropped.
    np.testing.assert_allclose(rows, 6 if exact else 3)
    logits = [each["logits"] for each in estimator.predict(input_fn)]
    assert len(logits) == len(ROWS)
    close(logits, plain.logits, **tolerance)


@pytest.mark.parametrize(
    ("devices", "train", "evaluated", "predicted"),
    [(None, [8], [7], [5]), (TWO, [4, 4], [4, 3], [3, 3])],
)
def test_model_fn_sees_its_tower_and_input_fn_the_batch(
    devices, train, evaluated, predicted, tmp_path
):
    seen = []

    def own_input(params, mode):
        seen.append(("input", params["batch_size"], "use_tpu" in params))
        return input_fn(params, mode)

    def model_fn(features, labels, mode, params):
        seen.append((mode, params["batch_size"], params["use_tpu"]))
        return tpu_model_fn(features, labels, mode, params)

    given = {"rate": 0.1}
    estimator = make(model_fn, tmp_path, devices=devices, params=given)
    estimator.train(own_input, steps=1)
    assert seen == [("input", 8, False), *(("train", size, False) for size in train)]
    seen.clear()
    estimator.evaluate(own_input, steps=1)
    assert seen == [("input", 7, False), *(("eval", size, False) for size in evaluated)]
    seen.clear()
    assert len(list(estimator.predict(own_input))) == len(ROWS)
    assert seen == [("input", 5, False), *(("infer", size, False) for size in predicted)]
    assert given == estimator.params == {"rate": 0.1}


def test_padded_towers_have_equal_batch_sizes(tmp_path):
    sizes = []

    def model_fn(features, labels, mode, params):
        sizes.append((params["batch_size"], features.shape[0]))
        return tpu_model_fn(features, labels, mode, params)

    estimator = make(model_fn, tmp_path, devices=TWO, uneven="pad")
    estimator.evaluate(lambda params: (ROWS[: params["batch_size"]], LABELS[:7]), steps=1)
    assert sizes == [(4, 4), (4, 4)]


def test_a_batch_size_that_is_not_given_is_not_in_params(tmp_path):
    seen = []

    def own_input(params, mode):
        seen.append(dict(params))
        return input_fn({"batch_size": 4}, mode)

    estimator = make(tpu_model_fn, tmp_path, eval_batch_size=None)
    assert estimator.evaluate(own_input)["rows"] == 4
    assert seen == [{"rate": 0.1}]


def test_export_has_no_batch_size(tmp_path):
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append(dict(params))
        return tpu_model_fn(features["x"], labels, mode, params)

    estimator = make(model_fn, tmp_path, export_to_tpu=True, export_to_cpu=False)
    estimator.train(lambda params, mode: ({"x": ROWS}, LABELS), steps=1)
    receive = replicate.export.build_raw_serving_input_receiver_fn({"x": ROWS})
    path = estimator.export_saved_model(str(tmp_path / "export"), receive)
    assert seen[-1] == {"rate": 0.1, "use_tpu": False}
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    expected = ROWS @ estimator.get_variable_value("weights")
    np.testing.assert_allclose(serve(x=tf.constant(ROWS))["logits"], expected, rtol=1e-5)


class HParams:
    """Hyper-parameters, as tf.contrib.training had them."""

    def __init__(self, **values):
        self._names = []
        for name, value in values.items():
            self.add_hparam(name, value)

    def __contains__(self, name):
        return name in self._names

    def add_hparam(self, name, value):
        assert name not in self._names
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        assert name in self._names
        setattr(self, name, value)


@pytest.mark.parametrize("devices", [None, TWO])
def test_params_may_be_hparams(devices, tmp_path):
    sizes = []

    def own_input(params, mode):
        return input_fn({"batch_size": params.batch_size}, mode)

    def model_fn(features, labels, mode, params):
        sizes.append((params.batch_size, params.use_tpu))
        return tpu_model_fn(features, labels, mode, {"rate": params.rate})

    given = HParams(rate=0.1, use_tpu=True)
    estimator = make(model_fn, tmp_path, params=given, devices=devices)
    estimator.train(own_input, steps=1)
    assert sizes == [(8, False)] if devices is None else [(4, False)] * 2
    assert "batch_size" not in given
    assert given.use_tpu is True


def test_model_fn_may_return_a_plain_spec_and_take_no_params(tmp_path):
    def model_fn(features, labels, mode):
        return plain_model_fn(features, labels, mode, {"rate": 0.1})

    estimator = make(model_fn, tmp_path, params=None)
    assert estimator.train(input_fn, steps=1).params == {}
    assert estimator.model_fn is not None


def test_model_fn_may_be_a_partial_function(tmp_path):
    def model_fn(rate, features, labels, mode, params):
        return tpu_model_fn(features, labels, mode, {**params, "rate": rate})

    estimator = make(functools.partial(model_fn, 0.1), tmp_path, params=None)
    estimator.train(input_fn, steps=1)
    assert estimator.get_variable_value("global_step") == 1


def test_train_and_evaluate_uses_both_batch_sizes(plain, tmp_path):
    estimator = make(tpu_model_fn, tmp_path)
    results, _ = replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(input_fn, max_steps=5),
        replicate.EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0),
    )
    assert results == plain.results


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
    assert estimator.evaluate(input_fn)["rows"] == 6


def test_subclasses_are_estimators(tmp_path):
    class OwnEstimator(tpu.TPUEstimator):
        def __init__(self, folder):
            super().__init__(
                tpu_model_fn, folder, config(), {"rate": 0.1}, False, train_batch_size=4
            )

    estimator = OwnEstimator(str(tmp_path)).train(input_fn, steps=1)
    assert isinstance(estimator, replicate.Estimator)
    assert estimator.config.tpu_config == tpu.TPUConfig()
    assert estimator._model_dir == str(tmp_path)


def test_warm_start_begins_with_the_weights(plain, tmp_path):
    first = make(tpu_model_fn, tmp_path / "first").train(input_fn, max_steps=5)
    second = make(tpu_model_fn, tmp_path / "second", warm_start_from=first.model_dir)
    assert second.evaluate(input_fn)["accuracy"] == plain.results["accuracy"]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"use_tpu": True}, ValueError, r"use_tpu=True needs a TPU, and .* pass use_tpu=False .*"),
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


def test_use_tpu_is_refused_by_default_in_one_sentence():
    with pytest.raises(ValueError, match="use_tpu") as raised:
        tpu.TPUEstimator(tpu_model_fn, config=config(), train_batch_size=8)
    assert str(raised.value).count(". ") == 0


def test_errors_of_a_model_fn_name_the_users_function(tmp_path):
    def model_fn(features, mode, params):
        return None

    estimator = make(model_fn, tmp_path)
    with pytest.raises(
        ValueError, match=r"model_fn .*\.model_fn \(.*test_estimator\.py:\d+\) does"
    ):
        estimator.train(input_fn, steps=1)
    with pytest.raises(TypeError, match=r"test_estimator\.py:\d+\) must return a replicate\.Est"):
        list(estimator.predict(input_fn))


def test_a_plain_optimizer_trains_on_towers_as_on_one_device(tmp_path):
    one = make(plain_model_fn, tmp_path / "one").train(input_fn, steps=3)
    two = make(plain_model_fn, tmp_path / "two", devices=TWO).train(input_fn, steps=3)
    assert one.get_variable_names() == two.get_variable_names()
    for name in one.get_variable_names():
        np.testing.assert_allclose(
            one.get_variable_value(name), two.get_variable_value(name), rtol=1e-6
        )
