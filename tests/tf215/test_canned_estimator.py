"""A canned estimator's model_fn, replicated, runs in a new Estimator as it did in its own."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import TowerOptimizer

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1

BATCH, CLASSES, STEPS = 12, 3, 10

_random = np.random.default_rng(0)
NUMBERS = _random.normal(size=[BATCH, 2]).astype(np.float32)
WORDS = np.array([b"one", b"two", b"three", b"four"])[_random.integers(0, 4, BATCH)]
LABELS = (_random.integers(0, CLASSES, BATCH)).astype(np.int64)


def columns():
    word = tf.feature_column.categorical_column_with_vocabulary_list(
        "word", ["one", "two", "three", "four"]
    )
    return [
        tf.feature_column.embedding_column(
            word, dimension=2, initializer=tf.constant_initializer(0.3)
        ),
        tf.feature_column.numeric_column("number", shape=[2]),
    ]


def canned(config, model_dir, wrap=lambda make_optimizer: make_optimizer):
    """A classifier with an optimizer function, which `wrap` may change."""
    return v1.estimator.DNNClassifier(
        hidden_units=[4],
        feature_columns=columns(),
        model_dir=str(model_dir),
        n_classes=CLASSES,
        optimizer=wrap(lambda: v1.train.AdagradOptimizer(0.05)),
        loss_reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        config=config,
    )


def wrapped(make_optimizer):
    return lambda: TowerOptimizer(make_optimizer)


class NothingLeftBehind(v1.train.SessionRunHook):
    """Fails when state of the towers is still on the graph that is about to run."""

    def begin(self):
        assert v1.get_collection(TowerOptimizer.COLLECTION_FOR_GRAPH_STATES) == []


def replicated(towers, config, model_dir):
    """The classifier's model_fn on several towers, in a new Estimator of the same model_dir."""
    classifier = canned(config, model_dir, wrapped)
    return tf.estimator.Estimator(
        replicate.replicate_model_fn(
            classifier.model_fn,
            loss_reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
            devices=[f"/cpu:{index}" for index in range(towers)],
        ),
        model_dir=classifier.model_dir,
        config=classifier.config,
        params=classifier.params,
    )


def input_fn(labels=LABELS, epochs=1):
    features = {"number": NUMBERS, "word": WORDS}
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(epochs).batch(BATCH)


def train(estimator, steps=STEPS):
    """Trains on one batch again and again, and returns the variables by name."""
    estimator.train(lambda: input_fn(epochs=None), hooks=[NothingLeftBehind()], steps=steps)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def results(estimator):
    """Trains on, evaluates and predicts; returns all values by name."""
    variables = train(estimator)
    metrics = estimator.evaluate(input_fn)
    probabilities = [each["probabilities"] for each in estimator.predict(input_fn)]
    return {**variables, **metrics, "probabilities": np.array(probabilities)}


def test_towers_train_evaluate_and_predict_as_the_estimator_itself(run_config, tmp_path):
    """All go on from a checkpoint that the canned estimator made in one step."""
    train(canned(run_config, tmp_path / "begun"), steps=1)
    folders = [shutil.copytree(tmp_path / "begun", tmp_path / name) for name in ("0", "1", "3")]
    expected = results(canned(run_config, folders[0]))
    assert expected["probabilities"].shape == (BATCH, CLASSES)
    assert expected["loss"] < np.log(CLASSES), "training must have helped"
    for towers, folder in ((1, folders[1]), (3, folders[2])):
        found = results(replicated(towers, run_config, folder))
        assert found.keys() == expected.keys()
        assert found["global_step"] == 1 + STEPS
        for name, value in expected.items():
            bound = 2e-6 * np.abs(value).max()
            np.testing.assert_allclose(found[name], value, atol=bound, err_msg=name)
