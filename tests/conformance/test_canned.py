"""Canned estimators on two towers train as on one.

All models are built side by side in one graph, each below a variable scope of its own, and trained
together, on batches that the towers divide and on others that they do not. The reference is the
same estimator without `devices`; its numbers are checked against NumPy elsewhere.

The default has each estimator with one optimizer; `-m slow` has it with all.
"""

import functools
import itertools
import zlib

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
fc = tf.feature_column

STEPS, CLASSES, WORDS = 4, 3, 11
TOLERANCE = 2e-6
"""Of the largest weight."""

NUMBERS = fc.numeric_column("numbers", [5])
WORD = fc.categorical_column_with_identity("word", WORDS)
TAGS = fc.categorical_column_with_identity("tags", WORDS)

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
    "adam": lambda: v1.train.AdamOptimizer(0.01, epsilon=1e-3),
}


def dense_columns():
    return [NUMBERS, fc.embedding_column(WORD, 4), fc.embedding_column(TAGS, 4)]


def dnn(optimizer, **arguments):
    return replicate.DNNClassifier(
        [7], dense_columns(), n_classes=CLASSES, optimizer=optimizer, **arguments
    )


def linear(optimizer, **arguments):
    return replicate.LinearClassifier(
        [NUMBERS, WORD, TAGS], n_classes=CLASSES, optimizer=optimizer, **arguments
    )


def combined(optimizer, **arguments):
    return replicate.DNNLinearCombinedRegressor(
        linear_feature_columns=[NUMBERS, WORD, TAGS],
        linear_optimizer=optimizer,
        dnn_feature_columns=dense_columns(),
        dnn_optimizer=optimizer,
        dnn_hidden_units=[7],
        dnn_activation_fn=tf.tanh,
        **arguments,
    )


def baseline(optimizer, **arguments):
    return replicate.BaselineClassifier(n_classes=CLASSES, optimizer=optimizer, **arguments)


ESTIMATORS = {"dnn": dnn, "linear": linear, "combined": combined, "baseline": baseline}
REDUCTIONS = {"mean": "sum_over_batch_size", "sum": "sum"}
MEMBERS = [
    (*names, list(REDUCTIONS)[index % 2])
    for index, names in enumerate(itertools.product(ESTIMATORS, OPTIMIZERS))
]
SAMPLE = [
    ("dnn", "adagrad", "sum"),
    ("linear", "ftrl", "mean"),
    ("combined", "sgd", "sum"),
    ("baseline", "adam", "mean"),
]


def make(member, model_dir, towers):
    estimator, optimizer, reduction = member
    return ESTIMATORS[estimator](
        OPTIMIZERS[optimizer],
        model_dir=model_dir,
        weight_column="weights",
        loss_reduction=REDUCTIONS[reduction],
        devices=None if towers is None else [f"/cpu:{index}" for index in range(towers)],
    )


@functools.cache
def batches():
    """Batches of 24, 5, 6 and 7 rows in turn: placeholders' values by name."""
    random = np.random.default_rng(3)
    found = []
    for step in range(STEPS):
        rows = (24, 5, 6, 7)[step % 4]
        numbers = random.normal(size=[rows, 5]).astype(np.float32)
        word = random.integers(0, WORDS, [rows, 1])
        tags = random.integers(0, WORDS, [rows, 4]) * random.integers(0, 2, [rows, 4])
        weights = random.integers(1, 5, [rows]).astype(np.float32) / 2
        labels = (word[:, 0] + (numbers.sum(axis=1) > 0) + tags[:, 0]) % CLASSES
        found.append([numbers, word, tags, weights, labels])
    return found


def inputs():
    """Placeholders in the order of the batches' values, and features and labels made of them."""
    fed = [
        v1.placeholder(tf.float32, [None, 5]),
        v1.placeholder(tf.int64, [None, 1]),
        v1.placeholder(tf.int64, [None, 4]),
        v1.placeholder(tf.float32, [None]),
        v1.placeholder(tf.int64, [None]),
    ]
    features = {
        "numbers": fed[0],
        "word": fed[1],
        "tags": tf.sparse.from_dense(fed[2]),
        "weights": fed[3],
    }
    return fed, features, fed[4]


def initial(name, shape):
    """The same values for a variable in every graph."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return (random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def build(members, towers, mode, model_dir):
    """Builds all members; returns their placeholders and specs."""
    v1.train.create_global_step()
    fed, features, labels = inputs()
    specs = {}
    for member in members:
        with v1.variable_scope("_".join(member)):
            estimator = make(member, model_dir, towers)
            given = tf.cast(labels, tf.float32) if member[0] == "combined" else labels
            specs[member] = estimator.model_fn(features, given, mode, estimator.config)
    return fed, specs


def initialize(session):
    variables = v1.trainable_variables()
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
    values = {
        each.initializer.inputs[1]: initial(each.op.name, each.shape.as_list())
        for each in variables
    }
    session.run([each.initializer for each in variables], values)


def train(members, towers, data, model_dir):
    """Returns losses [steps] of each member, and trainable variables by name."""
    with tf.Graph().as_default():
        fed, specs = build(members, towers, "train", model_dir)
        step = {member: (spec.loss, spec.train_op) for member, spec in specs.items()}
        with v1.Session() as session, user_errors():
            initialize(session)
            done = [session.run(step, dict(zip(fed, batch, strict=True))) for batch in data]
            values = session.run({each.op.name: each for each in v1.trainable_variables()})
    return {member: [each[member][0] for each in done] for member in members}, values


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A directory into which nothing is written."""
    return str(tmp_path_factory.mktemp("model"))


def different(got, expected):
    """Members and variables that are not as in the reference."""
    losses, values = got
    far = [
        name
        for name, value in values.items()
        if np.abs(value - expected[1][name]).max() > TOLERANCE * np.abs(expected[1][name]).max()
    ]
    return far + [
        member
        for member in losses
        if not np.allclose(losses[member], expected[0][member], rtol=5 * TOLERANCE, atol=0)
    ]


def check_towers(members, model_dir):
    reference = train(members, None, batches(), model_dir)
    got = train(members, 2, batches(), model_dir)
    assert different(got, reference) == []
    assert set(got[1]) == set(reference[1])
    return reference


def test_two_towers_train_as_one(model_dir):
    """Every variable moves, too."""
    losses, values = check_towers(SAMPLE, model_dir)
    assert sum("word" in name or "tags" in name for name in values) == 2 + 2 + 4
    for name, value in values.items():
        assert np.isfinite(value).all()
        assert np.abs(value - initial(name, value.shape)).max() > 1e-4, name
    assert np.isfinite(list(losses.values())).all()


@pytest.mark.slow
def test_two_towers_train_as_one_with_each_optimizer(model_dir):
    check_towers(MEMBERS, model_dir)
