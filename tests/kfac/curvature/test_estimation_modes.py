"""Each mode against the matrix that it is said to estimate, computed by NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.estimation_modes import MODES
from kfac.estimator import FisherEstimator

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
X, TRUNK = RANDOM.randn(12, 2), RANDOM.randn(2, 3)
TO_CLASSES, TO_MEANS = RANDOM.randn(3, 3), RANDOM.randn(3, 2)
LABELS, VALUES = RANDOM.randint(0, 3, 12), RANDOM.randn(12, 2)
WEIGHTS = RANDOM.rand(12)
CLASSES_COEFF, MEANS_COEFF, VARIANCE = 3.0, 0.5, 2.0
CUTS = {1: [], 3: [2, 7]}
"""Ends of the towers' shares of the batch, by number of towers; the shares are unequal."""


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@dataclasses.dataclass
class Truth:
    """Second moments of the output gradients of the trunk and of the two heads."""

    trunk: np.ndarray
    classes: np.ndarray
    means: np.ndarray

    def check(self, found, **tolerance):
        for expected, moment in zip(dataclasses.astuple(self), found, strict=True):
            np.testing.assert_allclose(moment, expected, **tolerance)


def truth(fisher_of_classes, fisher_of_means, cross=None):
    """Means over the batch, given the matrices by example at the heads' outputs."""
    slopes = 1 - np.tanh(X @ TRUNK) ** 2
    to_classes, to_means = (slopes[:, :, None] * w for w in (TO_CLASSES, TO_MEANS))
    trunk = to_classes @ fisher_of_classes @ to_classes.transpose(0, 2, 1)
    trunk += to_means @ fisher_of_means @ to_means.transpose(0, 2, 1)
    if cross is not None:
        mixed = to_classes @ cross @ to_means.transpose(0, 2, 1)
        trunk += mixed + mixed.transpose(0, 2, 1)
    return Truth(trunk.mean(0), fisher_of_classes.mean(0), fisher_of_means.mean(0))


def fisher_truth(weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    p = softmax(np.tanh(X @ TRUNK) @ TO_CLASSES)
    of_classes = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
    of_means = np.broadcast_to(np.eye(2) / VARIANCE, [len(X), 2, 2])
    scale = weights[:, None, None]
    return truth(CLASSES_COEFF * scale * of_classes, MEANS_COEFF * scale * of_means)


def empirical_truth(weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    h = np.tanh(X @ TRUNK)
    of_classes = CLASSES_COEFF * (softmax(h @ TO_CLASSES) - np.eye(3)[LABELS]) * weights[:, None]
    of_means = MEANS_COEFF * (h @ TO_MEANS - VALUES) / VARIANCE * weights[:, None]

    def outer(u, v):
        return u[:, :, None] * v[:, None, :]

    return truth(
        outer(of_classes, of_classes), outer(of_means, of_means), outer(of_classes, of_means)
    )


def build(towers=1, repeat=1, weights=None, dtype="float64"):
    """Registers a trunk with two heads, batch entries repeated, in the current graph."""
    collection = kfac.graph_layer_collection()
    w, to_classes, to_means = (
        v1.get_variable(name, initializer=tf.cast(tf.constant(value), dtype))
        for name, value in (("trunk", TRUNK), ("classes", TO_CLASSES), ("means", TO_MEANS))
    )
    weights = np.ones(len(X)) if weights is None else weights
    columns = [np.repeat(c, repeat, axis=0) for c in (X, LABELS, VALUES, weights)]
    shares = zip(*(np.split(column, CUTS[towers]) for column in columns), strict=True)
    for tower, share in enumerate(shares):
        x, labels, values, share_weights = map(tf.constant, share)
        x = tf.cast(x, dtype)
        common = {"reuse": tower > 0, "weights": share_weights}
        with v1.device(f"/cpu:{tower}"), v1.variable_scope("", reuse=tower > 0):
            s = tf.matmul(x, w)
            h = tf.tanh(s)
            logits, mean = tf.matmul(h, to_classes), tf.matmul(h, to_means)
            collection.register_fully_connected(w, x, s)
            collection.register_fully_connected(to_classes, h, logits)
            collection.register_categorical_predictive_distribution(
                logits, targets=labels, name="classes", coeff=CLASSES_COEFF, **common
            )
            collection.register_fully_connected(to_means, h, mean)
            collection.register_normal_predictive_distribution(
                mean, VARIANCE, targets=values, name="means", coeff=MEANS_COEFF, **common
            )
    return collection


def output_moments(session, collection, mode, updates=1):
    """Second moments of output gradients, averaged over updates."""
    estimator = FisherEstimator(None, 1.0, 0.1, collection, estimation_mode=mode)
    update = estimator.make_cov_update_op()
    session.run(v1.global_variables_initializer())
    for _ in range(updates):
        session.run(update)
    moments = [b.output_factor.cov for b in estimator.blocks]
    return session.run(moments)


@pytest.mark.parametrize(
    ("mode", "towers", "weights", "dtype", "rtol"),
    [
        ("exact", 3, WEIGHTS, "float64", 1e-12),
        ("exact_GGN", 1, None, "float64", 1e-12),
        ("exact", 1, WEIGHTS, "bfloat16", 0.1),
    ],
)
def test_exact_modes(graph, session, mode, towers, weights, dtype, rtol):
    found = output_moments(session, build(towers, weights=weights, dtype=dtype), mode)
    fisher_truth(weights).check(found, rtol=rtol, atol=rtol / 10)


def test_empirical_mode(graph, session):
    found = output_moments(session, build(3, weights=WEIGHTS), "empirical")
    empirical_truth(WEIGHTS).check(found, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("mode", "towers"), [("gradients", 3), ("curvature_prop_GGN", 1)])
def test_random_modes_are_unbiased(graph, session, mode, towers):
    found = output_moments(session, build(towers, 1000, WEIGHTS), mode, updates=4)
    # Entries are up to 0.3; the means of 4,000 draws for each of 12 examples have standard
    # deviations of at most 0.005; wrong coefficients or weights err by 0.1 and more.
    fisher_truth(WEIGHTS).check(found, atol=0.02)


@pytest.mark.parametrize(
    ("mode", "behavior"), [("curvature_prop", "v2"), ("exact", "v1")], indirect=["behavior"]
)
def test_branch_computes_what_the_unconditional_op_computes(graph, session, mode, behavior):
    estimator = FisherEstimator(None, 1.0, 0.1, build(), estimation_mode=mode)
    updates = [estimator.make_cov_update_op(due) for due in (tf.constant(True), True)]
    moments = [block.output_factor.cov for block in estimator.blocks]
    initialize, found = v1.global_variables_initializer(), []
    for update in updates:
        session.run(initialize)
        session.run(update)
        found.append(session.run(moments))
    for branch, expected in zip(*found, strict=True):
        assert expected.any()
        np.testing.assert_allclose(branch, expected, rtol=1e-10, atol=1e-12)
    session.run(updates[0])
    is_drawn_anew = not np.allclose(session.run(moments[0]), found[0][0])
    assert is_drawn_anew == (mode == "curvature_prop")


def test_loss_with_a_predicted_variance(graph, session):
    """With variance v = exp(s), F with respect to s is ½, whatever s is."""
    collection = kfac.LayerCollection()
    w = v1.get_variable("w", initializer=tf.constant(RANDOM.randn(2, 2)))
    s = tf.matmul(tf.constant(X), w)
    collection.register_fully_connected(w, tf.constant(X), s)
    mean, variance = s[:, :1], tf.exp(s[:, 1:])
    collection.register_normal_mean_variance_predictive_distribution(mean, variance)
    (found,) = output_moments(session, collection, "exact")
    expected = np.diag([np.mean(1 / session.run(variance)), 0.5])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_sequence_of_predictions(graph, session):
    """A signal for each step and class; the layer sees the steps as examples."""
    logits_value = RANDOM.randn(5, 2, 3)
    w = v1.get_variable("w", initializer=tf.constant(np.eye(3)))
    flat = tf.constant(logits_value.reshape(10, 3))
    outputs = tf.matmul(flat, w)
    collection = kfac.LayerCollection()
    collection.register_fully_connected(w, flat, outputs)
    logits = tf.reshape(outputs, [5, 2, 3])
    collection.register_categorical_predictive_distribution(logits)
    (found,) = output_moments(session, collection, "exact")
    p = softmax(logits_value.reshape(10, 3))
    expected = np.mean([np.diag(row) - np.outer(row, row) for row in p], axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", ["exact_GGN", "curvature_prop_GGN"])
def test_loss_without_a_gauss_newton_matrix(graph, mode):
    collection = kfac.LayerCollection()
    w = v1.get_variable("w", [2, 2])
    s = tf.matmul(tf.ones([3, 2]), w)
    collection.register_fully_connected(w, tf.ones([3, 2]), s)
    collection.register_normal_mean_variance_predictive_distribution(s, tf.exp(s), name="price")
    with pytest.raises(NotImplementedError, match=r"Loss 'price'"):
        FisherEstimator(None, 1.0, 0.1, collection, estimation_mode=mode).make_vars()


@pytest.mark.parametrize("shapes", [[[None, None]], [[None, 2], [None, 3]], [None]])
def test_exact_modes_need_static_shapes(graph, shapes):
    collection = kfac.LayerCollection()
    for tower, shape in enumerate(shapes):
        collection.register_multi_bernoulli_predictive_distribution(
            v1.placeholder(tf.float32, shape), name="tags", reuse=tower > 0
        )
    for mode in ("exact", "exact_GGN"):
        with pytest.raises(ValueError, match=r"exact curvature of loss 'tags'.*'curvature_prop'"):
            MODES[mode].make_signals(collection, 0)
