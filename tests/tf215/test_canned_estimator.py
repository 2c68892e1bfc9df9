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


@pytest.fixture(scope="module")
def new_model_dir(run_config, tmp_path_factory):
    """Makes a model_dir that the canned estimator has trained in for one step."""
    begun = tmp_path_factory.mktemp("begun")
    train(canned(run_config, begun), steps=1)
    return lambda: shutil.copytree(begun, tmp_path_factory.mktemp("model") / "copy")


@pytest.fixture(scope="module")
def expected(run_config, new_model_dir):
    """The canned estimator itself, trained on from there, and its variables."""
    estimator = canned(run_config, new_model_dir())
    return estimator, train(estimator)


@pytest.fixture(scope="module", params=[1, 3])
def trained(request, run_config, new_model_dir):
    """The replicated one, trained on from there, and its variables."""
    estimator = replicated(request.param, run_config, new_model_dir())
    return estimator, train(estimator)


def test_training_gives_the_same_variables(trained, expected):
    got, wanted = trained[1], expected[1]
    assert got.keys() == wanted.keys()
    assert got["global_step"] == 1 + STEPS
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=2e-6 * np.abs(value).max(), err_msg=name)


def test_evaluation_gives_the_same_metrics(trained, expected):
    got, wanted = (estimator.evaluate(input_fn) for estimator, _ in (trained, expected))
    assert got["global_step"] == 1 + STEPS
    assert got.keys() == wanted.keys()
    assert got["loss"] < np.log(CLASSES), "training must have helped"
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)


def probabilities(estimator):
    return np.array([each["probabilities"] for each in estimator.predict(input_fn)])


def test_predictions_are_the_same(trained, expected):
    got = probabilities(trained[0])
    assert got.shape == (BATCH, CLASSES)
    np.testing.assert_allclose(got, probabilities(expected[0]), rtol=1e-5)
