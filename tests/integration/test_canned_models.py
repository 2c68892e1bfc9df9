"""Canned models: accuracy on digits, and their model_fns in other estimators."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import replicate

v1 = tf.compat.v1
LOADERS = {"wine": load_wine, "breast_cancer": load_breast_cancer}
NAMES = ["wine", pytest.param("breast_cancer", marks=pytest.mark.slow)]
"""Wine has three classes, breast cancer two."""
HIDDEN = 32
STEPS = 150
RATE = 0.01
X = tf.feature_column.numeric_column("x", [2])
TOWERS = ["/cpu:0", "/cpu:1"]


def split(name):
    """Scaled features and labels: those to train on, and those to measure on."""
    features, labels = LOADERS[name](return_X_y=True)
    parts = train_test_split(features, labels, test_size=0.3, random_state=0, stratify=labels)
    scaler = StandardScaler().fit(parts[0])
    train, test = (scaler.transform(part).astype(np.float32) for part in parts[:2])
    return (train, parts[2]), (test, parts[3])


def accuracy(make, data, model_dir, steps):
    """Trains an estimator on the whole training set, and returns its accuracy on the other."""
    train, test = data

    def input_fn(part):
        return lambda: tf.data.Dataset.from_tensors(({"x": part[0]}, part[1])).repeat()

    estimator = make(
        feature_columns=[tf.feature_column.numeric_column("x", train[0].shape[1:])],
        n_classes=int(train[1].max()) + 1,
        model_dir=str(model_dir),
        config=replicate.RunConfig(progress="off", save_summary_steps=None),
    )
    estimator.train(input_fn(train), steps=steps)
    return estimator.evaluate(input_fn(test), steps=1)["accuracy"]


@pytest.mark.parametrize("name", NAMES)
def test_linear_classifier_is_as_accurate_as_logistic_regression(name, tmp_path):
    """The penalty of LogisticRegression is half the squares of the weights, over the rows.

    The rate is large: 400 steps come within 1% of the minimum, where 0.2 would need 1500.
    """
    (x, y), test = split(name)
    expected = LogisticRegression(max_iter=1000).fit(x, y).score(*test)
    optimizer = v1.train.FtrlOptimizer(1.0, l2_shrinkage_regularization_strength=1 / (2 * len(x)))
    make = functools.partial(replicate.LinearClassifier, optimizer=optimizer)
    assert accuracy(make, ((x, y), test), tmp_path, 400) >= expected - 1e-6


def network(**settings):
    """The network of scikit-learn: full batches, no penalty."""
    return MLPClassifier(
        [HIDDEN],
        alpha=0,
        random_state=0,
        tol=0,
        n_iter_no_change=STEPS,
        **{"learning_rate_init": RATE, "max_iter": STEPS, **settings},
    )


def save_initial_weights(x, y, folder):
    """Writes the weights at which scikit-learn starts as a checkpoint; returns its path."""
    start = network(batch_size=len(x), max_iter=1, learning_rate_init=1e-30).fit(x, y)
    with tf.Graph().as_default(), v1.Session() as session:
        for layer, kernel, bias in zip(
            ("hiddenlayer_0", "logits"), start.coefs_, start.intercepts_, strict=True
        ):
            v1.get_variable(f"dnn/{layer}/kernel", initializer=kernel.astype(np.float32))
            v1.get_variable(f"dnn/{layer}/bias", initializer=bias.astype(np.float32))
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(folder / "start"))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", NAMES)
def test_network_is_as_accurate_as_that_of_scikit_learn(name, tmp_path):
    (x, y), test = split(name)
    expected = network(batch_size=len(x)).fit(x, y).score(*test)
    make = functools.partial(
        replicate.DNNClassifier,
        [HIDDEN],
        optimizer=v1.train.AdamOptimizer(RATE),
        warm_start_from=save_initial_weights(x, y, tmp_path),
    )
    assert accuracy(make, ((x, y), test), tmp_path / "model", STEPS) >= expected - 1e-6


FEATURES = {"x": np.random.default_rng(0).normal(size=[8, 2]).astype(np.float32)}
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


def test_model_fn_is_replicated_by_hand(tmp_path):
    """With any way to name an optimizer."""

    def adagrad():
        return v1.train.AdagradOptimizer(0.05)

    on_one_device = train(replicate.DNNClassifier([4], [X], str(tmp_path)), KIND)
    for optimizer in (replicate.TowerOptimizer(adagrad), "Adagrad", adagrad):
        classifier = replicate.DNNClassifier([4], [X], str(tmp_path), optimizer=optimizer)
        model_fn = replicate.replicate_model_fn(classifier.model_fn, devices=TOWERS)
        towered = types.SimpleNamespace(model_fn=model_fn, config=classifier.config)
        check_equal(train(towered, KIND), on_one_device)
