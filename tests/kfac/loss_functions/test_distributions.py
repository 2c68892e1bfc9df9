"""Losses of each distribution: Fisher and GGN factors against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import (
    CategoricalLogitsNegativeLogProbLoss,
    MultiBernoulliNegativeLogProbLoss,
    NormalMeanNegativeLogProbLoss,
    NormalMeanVarianceNegativeLogProbLoss,
    OnehotCategoricalLogitsNegativeLogProbLoss,
)
from kfac.loss_functions.normal import standard_normal

v1 = tf.compat.v1
MEAN, TARGETS = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 1.0], [4.0, 2.0]])
RANDOM = np.random.RandomState(0)
VARIANCE = np.exp(RANDOM.randn(2, 2))
VECTOR = RANDOM.randn(2, 2), RANDOM.randn(2, 2)
WEIGHTS = np.array([0.5, 3.0])


def bits(logits, targets=None, **kwargs):
    return MultiBernoulliNegativeLogProbLoss(tf.constant(logits), targets, **kwargs)


def test_products_of_confident_bits(graph, session):
    logits, vector = np.array([[17.0, -30.0, 60.0]]), np.array([[3.0, -2.0, 1.0]])
    loss = bits(logits.astype("f"))
    small = np.exp(-abs(logits))
    variance = small / (1 + small) ** 2
    given = tf.constant(vector, tf.float32)
    found = session.run([loss.multiply_fisher(given), loss.multiply_fisher_factor(given)])
    np.testing.assert_allclose(found[0], variance * vector, rtol=1e-5)
    np.testing.assert_allclose(found[1], np.sqrt(variance) * vector, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_samples_of_bits(graph, session, dtype):
    logits = tf.cast(tf.tile([[-2.0, 0.0, 1.0]], [20_000, 1]), dtype)
    sample = MultiBernoulliNegativeLogProbLoss(logits).sample(tf.constant([1, 2]))
    assert sample.dtype == dtype
    found = session.run(tf.cast(sample, tf.float32))
    assert set(np.unique(found)) == {0, 1}
    # Standard deviation at most 0.0036.
    np.testing.assert_allclose(found.mean(0), 1 / (1 + np.exp([2.0, 0.0, -1.0])), atol=0.015)


def test_samples_of_classes_in_xla():
    """Drawn without the operation that XLA lacks; a class that is ruled out is never drawn."""
    logits = np.log([[0.1, 0.6, 0.3, 1e-30]]).astype("f")
    logits[0, 3] = -np.inf

    @tf.function(jit_compile=True)
    def drawn(seed):
        inputs = tf.tile(logits, [20_000, 1])
        return CategoricalLogitsNegativeLogProbLoss(inputs).sample(seed)

    found = drawn(tf.constant([1, 2]))
    assert found.dtype == tf.int64
    # Standard deviation at most 0.0035.
    shares = np.bincount(found, minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3, 0], atol=0.015)
    np.testing.assert_array_equal(found, drawn(tf.constant([1, 2])))


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def classes(logits, targets=None):
    return CategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets)


def make_onehot(logits, targets=None):
    return OnehotCategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets)


@pytest.mark.parametrize(
    ("make_loss", "targets"),
    [(classes, [1]), (make_onehot, [[0.0, 1.0, 0.0]])],
    ids=["ids", "one-hot"],
)
def test_masked_classes_do_not_spoil_the_loss(graph, session, make_loss, targets):
    loss = make_loss([[0.0, 0.0, -np.inf]], tf.constant(targets))
    value, gradient = session.run([loss.evaluate(), v1.gradients(loss.evaluate(), loss.inputs)[0]])
    np.testing.assert_allclose(value, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.5, -0.5, 0.0]], atol=1e-6)


def test_samples_are_the_same_as_vectors(graph, session):
    logits = np.random.RandomState(0).randn(2, 30, 4)
    ids, vectors = session.run([classes(logits).sample([1, 2]), make_onehot(logits).sample([1, 2])])
    assert ids.shape == (2, 30)
    np.testing.assert_array_equal(vectors, np.eye(4)[ids])


def test_product_broadcasts_over_leading_axes(graph, session):
    logits, vectors = np.array([1.0, 2.0, 0.0]), np.random.RandomState(0).randn(5, 2, 3)
    p = softmax(logits)
    expected = vectors @ (np.diag(p) - np.outer(p, p))
    loss = classes(logits)
    np.testing.assert_allclose(
        session.run(loss.multiply_fisher(tf.constant(vectors))), expected, rtol=1e-10
    )
    single = session.run(loss.multiply_fisher(tf.constant(vectors[0, 0])))
    np.testing.assert_allclose(single, expected[0, 0], rtol=1e-10)


@pytest.mark.parametrize(("make_loss", "gap"), [(classes, 17.0), (make_onehot, 40.0)])
def test_products_of_a_confident_class(graph, session, make_loss, gap):
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


def make_normal(*variance):
    targets = tf.constant(TARGETS)
    return NormalMeanNegativeLogProbLoss(tf.constant(MEAN), *variance, targets=targets)


def make_pair(mean=MEAN, variance=VARIANCE, targets=TARGETS, **kwargs):
    return NormalMeanVarianceNegativeLogProbLoss(
        tf.constant(mean), tf.constant(variance), tf.constant(targets), **kwargs
    )


def test_values(graph, session):
    logits, others = np.random.RandomState(0).randn(2, 4, 3)
    picks, shares, p = others > 0, softmax(others), 1 / (1 + np.exp(-logits))
    by_class = -np.log(softmax(MEAN))
    normal = (TARGETS - MEAN) ** 2 / (2 * VARIANCE) + np.log(2 * np.pi * VARIANCE) / 2
    entries = tf.constant([[1.0, 0.0], [0.5, 2.0]], tf.float64)
    squares = ((TARGETS - MEAN) ** 2).sum()
    cases = (
        (bits(logits, tf.constant(picks)), -np.log(np.where(picks, p, 1 - p)).sum()),
        (bits([[60.0, -60.0]], tf.ones([1, 2])), 60.0),
        (bits(np.zeros([2, 2]), tf.ones([2, 2]), weights=entries), 3.5 * np.log(2)),
        (classes(MEAN, tf.constant([0, 1])), 1.6265233),
        (classes(MEAN, tf.constant([0.0, 1.0])), 1.6265233),
        (classes(MEAN, tf.zeros([2, 2])), 2 * by_class[:, 0].sum()),
        (make_onehot(logits, tf.constant(shares)), -(shares * np.log(softmax(logits))).sum()),
        (make_normal(4.0), 7.6983433),
        (make_normal(), squares + 2 * np.log(np.pi)),
        (make_pair(), normal.sum()),
        (make_pair(weights=tf.constant(WEIGHTS)), (normal.sum(1) * WEIGHTS).sum()),
    )
    found = session.run([loss.evaluate() for loss, _ in cases])
    np.testing.assert_allclose(found, [expected for _, expected in cases], rtol=1e-7)


def as_constants(pair):
    return tuple(tf.constant(part) for part in pair)


def test_targets_of_another_shape(graph):
    normal = NormalMeanNegativeLogProbLoss(tf.zeros([4, 1]), targets=tf.zeros([4]), name="price")
    for loss, message in (
        (bits(np.zeros([2, 1]), tf.constant([0, 1])), r"shape \(2,\), its inputs \(2, 1\)"),
        (make_onehot(np.eye(2), tf.constant([0, 1])), r"shape \(2,\), its inputs \(2, 2\)"),
        (normal, r"loss 'price': its targets have shape \(4,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            loss.evaluate()


def test_variance_must_be_a_positive_number(graph):
    for var in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"loss 'price': var=.* It must be > 0"):
            NormalMeanNegativeLogProbLoss(tf.constant(MEAN), var, name="price")
    with pytest.raises(TypeError, match=r"loss 'price': var=.*register the mean and the variance"):
        NormalMeanNegativeLogProbLoss(tf.constant(MEAN), tf.constant(1.0), name="price")


def test_known_sizes_need_no_operations(graph):
    loss = classes(np.zeros([4, 10], "f"))
    loss.multiply_fisher_factor_one_hots([(k,) for k in range(10)])
    types = [op.type for op in graph.get_operations()]
    assert types.count("StridedSlice") == 1  # Number of examples.
    assert "Fill" not in types


def test_samples_of_a_normal_distribution(graph, session):
    loss = NormalMeanNegativeLogProbLoss(tf.constant(np.tile([1.0, -2.0], [20_000, 1])), 4.0)
    found = session.run(loss.sample([1, 2]))
    # The standard deviation of the means is 0.014.
    np.testing.assert_allclose(found.mean(0), [1.0, -2.0], atol=0.06)


def test_noise_in_every_precision(graph, session):
    dtypes = tf.float16, tf.bfloat16, tf.float32, tf.float64
    noises = [standard_normal([20_000], dtype, tf.constant([1, 2])) for dtype in dtypes]
    assert tuple(noise.dtype for noise in noises) == dtypes
    for found in session.run([tf.cast(noise, tf.float64) for noise in noises]):
        np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=0.03)


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
