import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import MultiBernoulliNegativeLogProbLoss

v1 = tf.compat.v1


def make(logits, targets=None, **kwargs):
    return MultiBernoulliNegativeLogProbLoss(tf.constant(logits), targets, **kwargs)


def test_value(graph, session):
    logits = np.random.RandomState(0).randn(4, 3)
    targets = np.random.RandomState(1).randint(0, 2, [4, 3])
    p = 1 / (1 + np.exp(-logits))
    expected = -np.log(np.where(targets, p, 1 - p)).sum()
    found = session.run(make(logits, tf.constant(targets)).evaluate())
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_large_logits(graph, session):
    loss = make([[60.0, -60.0]], tf.constant([[1.0, 1.0]]))
    value, fisher = session.run([loss.evaluate(), loss.multiply_fisher(tf.ones([1, 2]))])
    np.testing.assert_allclose(value, 60.0)
    np.testing.assert_allclose(fisher, [[np.exp(-60.0)] * 2], rtol=1e-5)


def test_weights_of_entries(graph, session):
    weights = tf.constant([[1.0, 0.0], [0.5, 2.0]])
    value = session.run(make(np.zeros([2, 2], "f"), tf.ones([2, 2]), weights=weights).evaluate())
    np.testing.assert_allclose(value, 3.5 * np.log(2), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_samples(graph, session, dtype):
    logits = tf.cast(tf.tile([[-2.0, 0.0, 1.0]], [20_000, 1]), dtype)
    sample = MultiBernoulliNegativeLogProbLoss(logits).sample(tf.constant([1, 2]))
    assert sample.dtype == dtype
    found = session.run(tf.cast(sample, tf.float32))
    assert set(np.unique(found)) == {0, 1}
    # Standard deviation at most 0.0036.
    np.testing.assert_allclose(found.mean(0), 1 / (1 + np.exp([2.0, 0.0, -1.0])), atol=0.015)


def test_equal_seeds_give_equal_samples(graph, session):
    loss = make(np.zeros([50, 4], "f"))
    a, b, c = session.run([loss.sample(seed) for seed in ([1, 2], [1, 2], [1, 3])])
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_targets_of_another_shape(graph):
    with pytest.raises(ValueError, match=r"targets have shape \(2,\), its inputs \(2, 1\)"):
        make(np.zeros([2, 1]), tf.constant([0, 1])).evaluate()


def test_products_of_a_confident_distribution(graph, session):
    logits = np.array([[17.0, -30.0]])
    loss = MultiBernoulliNegativeLogProbLoss(tf.constant(logits, tf.float32))
    vector = tf.constant([[3.0, -2.0]])
    small = np.exp(-abs(logits))
    variance = small / (1 + small) ** 2
    products = [loss.multiply_fisher, loss.multiply_fisher_factor]
    found = session.run([product(vector) for product in products])
    np.testing.assert_allclose(found[0], variance * [[3.0, -2.0]], rtol=1e-5)
    np.testing.assert_allclose(found[1], np.sqrt(variance) * [[3.0, -2.0]], rtol=1e-5)
