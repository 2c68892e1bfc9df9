"""model_fns of ready-made estimators where users put them: in towers, and in other Estimators."""

import types

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import export

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x", [2])
TOWERS = ["/cpu:0", "/cpu:1"]
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)

_random = np.random.default_rng(0)
FEATURES = {"x": _random.normal(size=[8, 2]).astype(np.float32)}
KIND = (FEATURES["x"][:, 0] > 0).astype(np.int64)
LABELS = {"kind": KIND, "size": FEATURES["x"].sum(axis=1)}


def train(estimator, labels, steps=3):
    """Losses of some steps of a model_fn, and all variables after them, by name."""
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        features = {name: tf.constant(value) for name, value in FEATURES.items()}
        labels = tf.nest.map_structure(tf.constant, labels)
        spec = estimator.model_fn(features, labels, "train", estimator.config)
        draws = np.random.default_rng(1)
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 8})) as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for variable in v1.trainable_variables():
                variable.load(draws.normal(size=variable.shape).astype(np.float32), session)
            losses = [session.run([spec.train_op, spec.loss])[1] for _ in range(steps)]
            assert session.run(step) == steps
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


def check_equal(got, expected):
    (losses, variables), (expected_losses, expected_variables) = got, expected
    assert expected_losses[-1] < expected_losses[0]
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    assert sorted(variables) == sorted(expected_variables)
    for name, value in expected_variables.items():
        np.testing.assert_allclose(variables[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_network_with_two_heads_trains_on_towers_as_on_one(tmp_path):
    def estimator(devices):
        heads = [replicate.BinaryClassHead(name="kind"), replicate.RegressionHead(name="size")]
        head = replicate.MultiHead(heads, head_weights=[1.0, 0.5])
        return replicate.DNNEstimator(head, [4], [X], str(tmp_path), "Adam", devices=devices)

    check_equal(train(estimator(TOWERS), LABELS), train(estimator(None), LABELS))


def tower_optimizer():
    return replicate.TowerOptimizer(lambda: v1.train.AdagradOptimizer(0.05))


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return train(replicate.DNNClassifier([4], [X], str(folder)), KIND)


@pytest.mark.parametrize(
    "optimizer",
    [tower_optimizer(), "Adagrad", lambda: v1.train.AdagradOptimizer(0.05)],
    ids=["TowerOptimizer", "name", "function"],
)
def test_model_fn_is_replicated_by_hand(optimizer, on_one_device, tmp_path):
    classifier = replicate.DNNClassifier([4], [X], str(tmp_path), optimizer=optimizer)
    model_fn = replicate.replicate_model_fn(classifier.model_fn, devices=TOWERS)
    towered = types.SimpleNamespace(model_fn=model_fn, config=classifier.config)
    check_equal(train(towered, KIND), on_one_device)


def input_fn():
    return tf.data.Dataset.from_tensors((FEATURES, KIND))


@pytest.mark.slow
def test_best_exporter_reads_the_metric_of_a_head(tmp_path):
    """A model_fn of a ready-made estimator, in an Estimator of its own."""
    classifier = replicate.DNNClassifier([8], [X], str(tmp_path), optimizer="Adam")
    config = CONFIG.replace(save_checkpoints_steps=10)
    estimator = replicate.Estimator(classifier.model_fn, str(tmp_path), config)
    told = []

    def is_better(best_eval_result, current_eval_result):
        told.append((best_eval_result["accuracy"], current_eval_result["accuracy"]))
        return current_eval_result["accuracy"] >= best_eval_result["accuracy"]

    receiver = export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None, 2], tf.float32, "x")}
    )
    exporter = replicate.BestExporter("best", receiver, compare_fn=is_better)
    results, _ = replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(lambda: input_fn().repeat(), max_steps=20),
        replicate.EvalSpec(input_fn, exporters=exporter, start_delay_secs=0, throttle_secs=0),
    )
    assert results["global_step"] == 20
    assert told[-1][1] == results["accuracy"] >= told[-1][0]
    path = max((tmp_path / "export" / "best").iterdir())
    served = tf.saved_model.load(str(path)).signatures["predict"](x=tf.constant(FEATURES["x"]))
    found = served["class_ids"].numpy().ravel()
    assert (found == KIND).mean() == pytest.approx(results["accuracy"])
