import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import (
    CategoricalLogitsNegativeLogProbLoss,
    OnehotCategoricalLogitsNegativeLogProbLoss,
)

v1 = tf.compat.v1


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def make(logits, targets=None):
    return CategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets)


def make_onehot(logits, targets=None):
    return OnehotCategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets)


@pytest.mark.parametrize("targets", [[0, 1], np.array([0.0, 1.0])])
def test_known_value(graph, session, targets):
    loss = make([[1.0, 2.0], [3.0, 4.0]], tf.constant(targets))
    np.testing.assert_allclose(session.run(loss.evaluate()), 1.6265233, rtol=1e-7)


def test_known_value_of_one_hot_targets(graph, session):
    loss = make_onehot([[1.0, 2.0], [3.0, 4.0]], tf.constant([[1, 0], [0, 1]]))
    np.testing.assert_allclose(session.run(loss.evaluate()), 1.6265233, rtol=1e-7)


def test_probabilities_as_targets(graph, session):
    logits, targets = np.random.RandomState(0).randn(2, 4, 3)
    value = session.run(make_onehot(logits, tf.constant(softmax(targets))).evaluate())
    np.testing.assert_allclose(value, -(softmax(targets) * np.log(softmax(logits))).sum())


def test_targets_of_higher_rank_broadcast(graph, session):
    value = session.run(make([[1.0, 2.0], [3.0, 4.0]], tf.zeros([2, 2])).evaluate())
    expected = -np.log(softmax(np.array([[1.0, 2], [3, 4]])))[:, 0].sum() * 2
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_one_hot_targets_of_another_shape(graph):
    with pytest.raises(ValueError, match=r"targets have shape \(2,\), its inputs \(2, 2\)"):
        make_onehot([[1.0, 2.0], [3.0, 4.0]], tf.constant([0, 1])).evaluate()


def test_gradient_is_probability_minus_one_hot(graph, session):
    logits = np.random.RandomState(0).randn(4, 3)
    loss = make(logits, tf.constant([0, 2, 1, 2]))
    gradient = session.run(v1.gradients(loss.evaluate(), loss.inputs)[0])
    np.testing.assert_allclose(gradient, softmax(logits) - np.eye(3)[[0, 2, 1, 2]], atol=1e-12)


@pytest.mark.parametrize(
    ("make_loss", "targets"),
    [(make, [1]), (make_onehot, [[0.0, 1.0, 0.0]])],
    ids=["ids", "one-hot"],
)
def test_masked_classes_do_not_spoil_the_loss(graph, session, make_loss, targets):
    loss = make_loss([[0.0, 0.0, -np.inf]], tf.constant(targets))
    value, gradient = session.run([loss.evaluate(), v1.gradients(loss.evaluate(), loss.inputs)[0]])
    np.testing.assert_allclose(value, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.5, -0.5, 0.0]], atol=1e-6)


def test_equal_seeds_give_equal_samples(graph, session):
    loss = make(np.zeros([50, 4], "f"))
    a, b, c = session.run([loss.sample(seed) for seed in ([1, 2], [1, 2], [1, 3])])
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    assert a.shape == (50,)


def test_samples_of_more_axes(graph, session):
    assert session.run(make(np.zeros([2, 3, 4], "f")).sample([0, 0])).shape == (2, 3)


def test_samples_are_the_same_as_vectors(graph, session):
    logits = np.random.RandomState(0).randn(2, 30, 4)
    ids, vectors = session.run([make(logits).sample([1, 2]), make_onehot(logits).sample([1, 2])])
    np.testing.assert_array_equal(vectors, np.eye(4)[ids])


def test_product_broadcasts_over_leading_axes(graph, session):
    logits, vectors = np.array([1.0, 2.0, 0.0]), np.random.RandomState(0).randn(5, 2, 3)
    p = softmax(logits)
    expected = vectors @ (np.diag(p) - np.outer(p, p))
    loss = make(logits)
    np.testing.assert_allclose(
        session.run(loss.multiply_fisher(tf.constant(vectors))), expected, rtol=1e-10
    )
    single = session.run(loss.multiply_fisher(tf.constant(vectors[0, 0])))
    np.testing.assert_allclose(single, expected[0, 0], rtol=1e-10)


@pytest.mark.parametrize("gap", [17.0, 40.0])
@pytest.mark.parametrize("make_loss", [make, make_onehot])
def test_products_of_a_confident_distribution(graph, session, make_loss, gap):
    """Small differences of large numbers would have no correct digit in float32."""
    logits = np.array([[gap, 0.0, 1.0], [0.5, gap, gap]])
    vector = np.array([[3.0, -2.0, 1.0], [1.0, 2.0, -1.0]])
    loss = make_loss(logits.astype(np.float32))
    p = softmax(logits)
    # Written so that the digits of float64 suffice: 1 − p as the sum of the other probabilities.
    others = p @ (1 - np.eye(3))
    matrix = -p[:, :, None] * p[:, None, :]
    factor = -p[:, :, None] * np.sqrt(p)[:, None, :]
    for k in range(3):
        matrix[:, k, k] = p[:, k] * others[:, k]
        factor[:, k, k] = np.sqrt(p[:, k]) * others[:, k]
    given = tf.constant(vector, tf.float32)
    found = session.run(
        [
            loss.multiply_fisher(given),
            loss.multiply_fisher_factor(given),
            loss.multiply_fisher_factor_transpose(given),
            loss.multiply_fisher(tf.constant(vector[0], tf.float32))[0],
        ]
    )
    products = ("nij,nj->ni", "nij,nj->ni", "nji,nj->ni")
    for product, form, of in zip(found, products, (matrix, factor, factor), strict=False):
        np.testing.assert_allclose(product, np.einsum(form, of, vector), rtol=1e-5)
    np.testing.assert_allclose(found[3], found[0][0])
