import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import CategoricalLogitsNegativeLogProbLoss

v1 = tf.compat.v1


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def make(logits, targets=None):
    return CategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets, "loss")


@pytest.mark.parametrize("targets", [[0, 1], np.array([0.0, 1.0])])
def test_known_value(graph, session, targets):
    loss = make([[1.0, 2.0], [3.0, 4.0]], tf.constant(targets))
    np.testing.assert_allclose(session.run(loss.evaluate()), 1.6265233, rtol=1e-6)


def test_targets_of_higher_rank_broadcast(graph, session):
    value = session.run(make([[1.0, 2.0], [3.0, 4.0]], tf.zeros([2, 2])).evaluate())
    expected = -np.log(softmax(np.array([[1.0, 2], [3, 4]])))[:, 0].sum() * 2
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_gradient_is_probability_minus_one_hot(graph, session):
    logits = np.random.RandomState(0).randn(4, 3)
    loss = make(logits, tf.constant([0, 2, 1, 2]))
    gradient = session.run(v1.gradients(loss.evaluate(), loss.inputs)[0])
    np.testing.assert_allclose(gradient, softmax(logits) - np.eye(3)[[0, 2, 1, 2]], atol=1e-12)


def test_masked_classes_do_not_spoil_the_loss(graph, session):
    loss = make([[0.0, 0.0, -np.inf]], tf.constant([1]))
    value, gradient = session.run([loss.evaluate(), v1.gradients(loss.evaluate(), loss.inputs)[0]])
    np.testing.assert_allclose(value, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.5, -0.5, 0.0]], atol=1e-6)


def test_without_targets(graph):
    with pytest.raises(ValueError, match=r"Cannot evaluate loss 'loss' on data: it has no targets"):
        make([[0.0, 1.0]]).evaluate()


def test_equal_seeds_give_equal_samples(graph, session):
    loss = make(np.zeros([50, 4], "f"))
    a, b, c = session.run([loss.sample(seed) for seed in ([1, 2], [1, 2], [1, 3])])
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    assert a.shape == (50,)


def test_samples_of_more_axes(graph, session):
    assert session.run(make(np.zeros([2, 3, 4], "f")).sample([0, 0])).shape == (2, 3)


def test_sampled_gradients_estimate_the_fisher_matrix(graph, session):
    logits = np.array([1.0, 0.0, -1.0, 0.5])
    loss = make(np.tile(logits, [40_000, 1]))
    gradient = session.run(v1.gradients(loss.evaluate_on_sample([3, 4]), loss.inputs)[0])
    p = softmax(logits)
    exact = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(gradient.T @ gradient / len(gradient), exact, atol=6e-3)
