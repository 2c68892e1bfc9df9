"""A replicated model_fn inside tf.estimator.Estimator does what NumPy does on the whole batch."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1
export = tf.estimator.export
Modes = tf.estimator.ModeKeys
TRAIN, EVAL, PREDICT = Modes.TRAIN, Modes.EVAL, Modes.PREDICT

ROWS, BATCH, STEPS = 30, 10, 12
RATE, MOMENTUM = 0.3, 0.9
TOLERANCE = 2e-6
TOWERS = [1, 2, 3]
"""Three do not divide the batch."""

_random = np.random.default_rng(0)
Y = _random.integers(0, 3, ROWS)
X = (_random.normal(size=[3, 4])[Y] + _random.normal(size=[ROWS, 4])).astype(np.float32)


class Counting(v1.train.SessionRunHook):
    """Counts the runs of a session under a name."""

    def __init__(self, calls, name):
        self._calls = calls
        self._name = name

    def after_run(self, run_context, run_values):
        self._calls[self._name] += 1


def make_model_fn(calls):
    """Softmax regression with everything in its spec; its hooks count into `calls`."""

    def model_fn(features, labels, mode, params, config):
        assert isinstance(config, tf.estimator.RunConfig)
        weights = v1.get_variable("weights", [4, 3], initializer=v1.zeros_initializer())
        bias = tf.Variable(tf.zeros([3]), name="bias")
        logits = features["x"] @ weights + bias
        probabilities = tf.nn.softmax(logits)
        loss = train_op = metrics = None
        if mode != PREDICT:
            loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
            wins = tf.equal(tf.argmax(logits, 1), labels)
            metrics = {
                "accuracy": v1.metrics.accuracy(labels, tf.argmax(logits, 1)),
                "auc": v1.metrics.auc(wins, tf.reduce_max(probabilities, 1)),
            }
        if mode == TRAIN:
            optimizer = v1.train.MomentumOptimizer(params["rate"], MOMENTUM)
            train_op = replicate.TowerOptimizer(optimizer).minimize(
                loss, v1.train.get_global_step()
            )
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"probabilities": probabilities, "row": features["row"]},
            loss=loss,
            train_op=train_op,
            eval_metric_ops=metrics,
            export_outputs={
                "serving_default": export.PredictOutput({"probabilities": probabilities}),
                "classify": export.ClassificationOutput(
                    scores=probabilities, classes=tf.as_string(tf.argsort(logits))
                ),
                "regress": export.RegressionOutput(probabilities[:, 0]),
            },
            training_hooks=[Counting(calls, "training")],
            training_chief_hooks=[Counting(calls, "chief")],
            evaluation_hooks=[Counting(calls, "evaluation")],
            prediction_hooks=[Counting(calls, "prediction")],
        )

    return model_fn


def replicated(towers, calls=None):
    return replicate.replicate_model_fn(
        make_model_fn(Counter() if calls is None else calls),
        devices=[f"/cpu:{index}" for index in range(towers)],
        uneven="weighted" if BATCH % towers else "error",
    )


def estimator_on(towers, config, model_dir, calls=None):
    return tf.estimator.Estimator(
        replicated(towers, calls), str(model_dir), config, params={"rate": RATE}
    )


def input_fn(epochs=1, rows=ROWS):
    features = {"x": X[:rows], "row": np.arange(rows)}
    return tf.data.Dataset.from_tensor_slices((features, Y[:rows])).repeat(epochs).batch(BATCH)


def softmax(logits):
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def trained_by_numpy():
    """Weights and bias after STEPS steps."""
    weights, bias = np.zeros([4, 3]), np.zeros(3)
    momenta = [np.zeros_like(weights), np.zeros_like(bias)]
    for step in range(STEPS):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % ROWS
        error = (softmax(X[rows] @ weights + bias) - np.eye(3)[Y[rows]]) / BATCH
        gradients = [X[rows].T @ error, error.sum(axis=0)]
        momenta = [MOMENTUM * m + gradient for m, gradient in zip(momenta, gradients, strict=True)]
        weights, bias = weights - RATE * momenta[0], bias - RATE * momenta[1]
    return weights, bias


@pytest.fixture(scope="module", params=TOWERS)
def trained(request, run_config, tmp_path_factory):
    """An Estimator that has trained on 1, 2 or 3 towers, and what its hooks counted."""
    calls = Counter()
    estimator = estimator_on(request.param, run_config, tmp_path_factory.mktemp("model"), calls)
    estimator.train(lambda: input_fn(epochs=None), steps=STEPS)
    weights = [estimator.get_variable_value(name) for name in ("weights", "bias")]
    return SimpleNamespace(
        estimator=estimator,
        trained_hooks=dict(calls),
        calls=calls,
        weights=weights,
        probabilities=softmax(X @ weights[0] + weights[1]),
    )


@pytest.mark.parametrize("towers", TOWERS)
@pytest.mark.parametrize("mode", [TRAIN, EVAL, PREDICT])
def test_types_stay_those_of_tf_estimator(graph, run_config, mode, towers):
    v1.train.create_global_step()
    features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
    spec = replicated(towers)(features, labels, mode, {"rate": RATE}, run_config)
    assert type(spec) is tf.estimator.EstimatorSpec
    assert spec.mode == mode
    assert {name: type(output) for name, output in spec.export_outputs.items()} == {
        "serving_default": export.PredictOutput,
        "classify": export.ClassificationOutput,
        "regress": export.RegressionOutput,
    }


def test_training_gives_the_weights_of_the_whole_batch(trained):
    for got, expected in zip(trained.weights, trained_by_numpy(), strict=True):
        np.testing.assert_allclose(got, expected, atol=TOLERANCE * np.abs(expected).max())
    assert trained.estimator.get_variable_value("global_step") == STEPS
    assert sorted(trained.estimator.get_variable_names()) == [
        *("bias", "bias/Momentum", "global_step", "weights", "weights/Momentum")
    ]


def test_hooks_of_the_spec_run_once_a_step(trained):
    assert trained.trained_hooks == {"training": STEPS, "chief": STEPS}


def test_evaluation_gives_the_metrics_of_the_whole_data(trained):
    before = trained.calls["evaluation"]
    results = trained.estimator.evaluate(input_fn)
    assert trained.calls["evaluation"] - before == ROWS // BATCH
    right = trained.probabilities.argmax(axis=1) == Y
    losses = -np.log(trained.probabilities[np.arange(ROWS), Y])
    assert 0 < right.mean() < 1, "the data must be neither too easy nor too hard"
    np.testing.assert_allclose(results["accuracy"], right.mean(), rtol=1e-6)
    np.testing.assert_allclose(results["loss"], losses.mean(), rtol=1e-6)
    np.testing.assert_allclose(results["auc"], auc(right, trained.probabilities.max(1)), atol=0.02)
    assert results["global_step"] == STEPS


def auc(positive, scores):
    """Share of the (positive, negative) pairs in which the positive has the higher score."""
    return np.mean(scores[positive][:, None] > scores[~positive])


@pytest.mark.parametrize("rows", [1, 14, ROWS])
def test_predictions_come_in_the_order_of_the_rows(trained, rows):
    before = trained.calls["prediction"]
    predictions = list(trained.estimator.predict(lambda: input_fn(rows=rows)))
    assert trained.calls["prediction"] - before == -(-rows // BATCH)
    assert [each["row"] for each in predictions] == list(range(rows))
    got = [each["probabilities"] for each in predictions]
    np.testing.assert_allclose(got, trained.probabilities[:rows], rtol=1e-5)


def signatures(towers, run_config, model_dir, folder):
    """Signatures of a trained model, exported from a model on some towers."""
    exporting = estimator_on(towers, run_config, model_dir)
    receiver = export.build_parsing_serving_input_receiver_fn(
        {
            "x": tf.io.FixedLenFeature([4], tf.float32),
            "row": tf.io.FixedLenFeature([], tf.int64, default_value=0),
        }
    )
    exported = exporting.export_saved_model(str(folder), receiver)
    return tf.saved_model.load(exported.decode()).signatures


def serialized(row):
    values = tf.train.Feature(float_list=tf.train.FloatList(value=row))
    features = tf.train.Features(feature={"x": values})
    return tf.train.Example(features=features).SerializeToString()


@pytest.mark.parametrize("towers", TOWERS)
def test_exported_model_gives_the_same_from_any_number_of_towers(
    trained, run_config, tmp_path, towers
):
    served = signatures(towers, run_config, trained.estimator.model_dir, tmp_path)
    for rows in (1, 7):
        request = tf.constant([serialized(row) for row in X[:rows]])
        expected = trained.probabilities[:rows]
        predicted = served["serving_default"](examples=request)
        np.testing.assert_allclose(predicted["probabilities"], expected, rtol=1e-5)
        classified = served["classify"](inputs=request)
        np.testing.assert_allclose(classified["scores"], expected, rtol=1e-5)
        classes = classified["classes"].numpy().astype(int)
        np.testing.assert_array_equal(classes, expected.argsort(axis=1))
        regressed = served["regress"](inputs=request)
        np.testing.assert_allclose(regressed["outputs"], expected[:, 0], rtol=1e-5)


class BuiltError(Exception):
    """The model has been built, and need not be trained."""


@pytest.mark.parametrize("towers", [1, 2])
def test_local_variables_stay_on_the_worker(towers, tmp_path, monkeypatch):
    jobs = {"chief": ["a:1"], "worker": ["a:2", "a:3"], "ps": ["a:4"]}
    task = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": task}))

    def model_fn(features, labels, mode):
        v1.get_local_variable("own", [])
        weight = v1.get_variable("weight", initializer=1.0)
        v1.metrics.mean(weight)
        normalized = v1.layers.batch_normalization(features["x"], training=True)
        loss = tf.reduce_mean(weight * normalized)
        sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1)
        optimizer = replicate.TowerOptimizer(sync)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def built(features, labels, mode):
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        replicate.replicate_model_fn(model_fn, devices=devices)(features, labels, mode)
        own = {variable.device.partition("/device")[0] for variable in v1.local_variables()}
        shared = {variable.device.partition("/device")[0] for variable in v1.global_variables()}
        assert len(v1.local_variables()) == (4 if towers == 1 else 8)
        assert (own, shared) == ({"/job:worker/task:1"}, {"/job:ps/task:0"})
        raise BuiltError

    with pytest.raises(BuiltError):
        tf.estimator.Estimator(built, tmp_path).train(input_fn)
