import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import (
    NormalMeanNegativeLogProbLoss,
    NormalMeanVarianceNegativeLogProbLoss,
)
from kfac.loss_functions.normal import standard_normal

v1 = tf.compat.v1

MEAN, TARGETS = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 1.0], [4.0, 2.0]])
RANDOM = np.random.RandomState(0)
VARIANCE = np.exp(RANDOM.randn(2, 2))
VECTOR = RANDOM.randn(2, 2), RANDOM.randn(2, 2)
WEIGHTS = np.array([0.5, 3.0])


def make_pair(mean=MEAN, variance=VARIANCE, targets=TARGETS, **kwargs):
    return NormalMeanVarianceNegativeLogProbLoss(
        tf.constant(mean), tf.constant(variance), tf.constant(targets), **kwargs
    )


def as_constants(pair):
    return tuple(tf.constant(part) for part in pair)


# The variance is given.


def test_known_value(graph, session):
    loss = NormalMeanNegativeLogProbLoss(tf.constant(MEAN), 4.0, tf.constant(TARGETS))
    np.testing.assert_allclose(session.run(loss.evaluate()), 7.6983433, rtol=1e-7)


def test_default_is_the_squared_error(graph, session):
    loss = NormalMeanNegativeLogProbLoss(tf.constant(MEAN), targets=tf.constant(TARGETS))
    value, gradient = session.run([loss.evaluate(), v1.gradients(loss.evaluate(), loss.inputs)[0]])
    np.testing.assert_allclose(value, ((TARGETS - MEAN) ** 2).sum() + 4 * np.log(np.pi) / 2)
    np.testing.assert_allclose(gradient, 2 * (MEAN - TARGETS))


def test_samples(graph, session):
    loss = NormalMeanNegativeLogProbLoss(tf.constant(np.tile([1.0, -2.0], [20_000, 1])), 4.0)
    found = session.run(loss.sample([1, 2]))
    # Standard deviations are 0.014 and 0.04.
    np.testing.assert_allclose(found.mean(0), [1.0, -2.0], atol=0.06)
    np.testing.assert_allclose(found.var(0), [4.0, 4.0], atol=0.16)
    again, other = session.run([loss.sample([1, 2]), loss.sample([1, 3])])
    np.testing.assert_array_equal(found, again)
    assert (found != other).any()


@pytest.mark.parametrize("var", [0, -1.0, float("nan"), float("inf")])
def test_variance_must_be_positive(graph, var):
    with pytest.raises(ValueError, match=r"loss 'price': var=.* It must be > 0"):
        NormalMeanNegativeLogProbLoss(tf.constant(MEAN), var, name="price")


def test_variance_must_be_a_number(graph):
    with pytest.raises(TypeError, match=r"loss 'price': var=.*register the mean and the variance"):
        NormalMeanNegativeLogProbLoss(tf.constant(MEAN), tf.constant(1.0), name="price")


def test_targets_that_would_broadcast(graph):
    loss = NormalMeanNegativeLogProbLoss(tf.zeros([4, 1]), targets=tf.zeros([4]), name="price")
    with pytest.raises(ValueError, match=r"loss 'price': its targets have shape \(4,\)"):
        loss.evaluate()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_noise_in_every_precision(graph, session, dtype):
    noise = standard_normal([20_000], tf.as_dtype(dtype), tf.constant([1, 2]))
    assert noise.dtype == dtype
    found = session.run(tf.cast(noise, tf.float64))
    np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=0.03)


# The variance is predicted.


def test_value_of_a_predicted_variance(graph, session):
    expected = (TARGETS - MEAN) ** 2 / (2 * VARIANCE) + np.log(2 * np.pi * VARIANCE) / 2
    np.testing.assert_allclose(session.run(make_pair().evaluate()), expected.sum(), rtol=1e-12)
    weighted = session.run(make_pair(weights=tf.constant(WEIGHTS)).evaluate())
    np.testing.assert_allclose(weighted, (expected.sum(1) * WEIGHTS).sum(), rtol=1e-12)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_products_of_a_predicted_variance(graph, session, weights):
    loss = make_pair(weights=None if weights is None else tf.constant(weights))
    scale = 1.0 if weights is None else weights[:, None]
    expected = scale * VECTOR[0] / VARIANCE, scale * VECTOR[1] / (2 * VARIANCE**2)
    inner = loss.multiply_fisher_factor_transpose(as_constants(VECTOR))
    assert inner.shape == (2, 4)
    twice = loss.multiply_fisher_factor(inner)
    for found in session.run([loss.multiply_fisher(as_constants(VECTOR)), twice]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_unit_vectors_of_a_predicted_variance(graph, session):
    columns = session.run(
        [make_pair().multiply_fisher_factor_replicated_one_hot([k]) for k in range(4)]
    )
    matrix = np.stack([np.concatenate(column, axis=-1) for column in columns], axis=-1)
    for example, variance in zip(matrix, VARIANCE, strict=True):
        expected = np.concatenate([1 / np.sqrt(variance), 1 / (np.sqrt(2) * variance)])
        np.testing.assert_allclose(example, np.diag(expected), rtol=1e-12)


def test_sampled_gradients_estimate_the_fisher_matrix(graph, session):
    draws = 80_000
    mean, variance = np.tile([1.0], [draws, 1]), np.tile([2.0], [draws, 1])
    loss = make_pair(mean, variance, mean)
    gradients = v1.gradients(loss.evaluate_on_sample([1, 2]), loss.inputs)
    gradients = np.concatenate(session.run(gradients), axis=1)
    found = gradients.T @ gradients / draws
    # The standard deviation of the entries is at most 0.003.
    np.testing.assert_allclose(found, [[0.5, 0.0], [0.0, 0.125]], atol=0.012)


def test_inner_shape_has_both_parts(graph, session):
    mean, variance = (v1.placeholder(tf.float64, [None, 2]) for _ in range(2))
    loss = NormalMeanVarianceNegativeLogProbLoss(mean, variance)
    assert loss.fisher_factor_inner_static_shape.as_list() == [None, 4]
    shape = session.run(loss.fisher_factor_inner_shape, {mean: np.zeros([7, 2])})
    assert tuple(shape) == (7, 4)


def test_gauss_newton_products_are_refused(graph):
    loss = make_pair(name="price")
    calls = [
        lambda: loss.multiply_ggn(as_constants(VECTOR)),
        lambda: loss.multiply_ggn_factor(tf.zeros([2, 4])),
        lambda: loss.multiply_ggn_factor_transpose(as_constants(VECTOR)),
        lambda: loss.multiply_ggn_factor_replicated_one_hot([0]),
        lambda: loss.ggn_factor_inner_shape,
        lambda: loss.ggn_factor_inner_static_shape,
    ]
    for call in calls:
        with pytest.raises(NotImplementedError, match=r"Loss 'price'.*not convex.*'exact'"):
            call()
