import numpy as np
import pytest
import tensorflow as tf

from kfac import loss_functions
from kfac.loss_functions import insert_slice_in_zeros

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
LOGITS, OTHER = RANDOM.randn(4, 3), RANDOM.randn(4, 3)
WEIGHTS = np.array([1.0, 0.0, 2.0, 0.25])


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def categorical_fisher(logits):
    return np.diag(softmax(logits)) - np.outer(softmax(logits), softmax(logits))


def bernoulli_fisher(logits):
    p = 1 / (1 + np.exp(-logits))
    return np.diag(p * (1 - p))


# For each loss: how to make it, and the Fisher matrix of one example from NumPy.
NATURAL = {
    "categorical": (loss_functions.CategoricalLogitsNegativeLogProbLoss, categorical_fisher),
    "one-hot": (loss_functions.OnehotCategoricalLogitsNegativeLogProbLoss, categorical_fisher),
    "bernoulli": (loss_functions.MultiBernoulliNegativeLogProbLoss, bernoulli_fisher),
    "normal": (
        lambda mean, **kwargs: loss_functions.NormalMeanNegativeLogProbLoss(mean, 4.0, **kwargs),
        lambda mean: np.eye(len(mean)) / 4,
    ),
}


@pytest.fixture(params=NATURAL)
def kind(request):
    return NATURAL[request.param]


@pytest.fixture(params=[None, WEIGHTS], ids=["unweighted", "weighted"])
def weights(request):
    return request.param


def fishers(kind, weights):
    weights = np.ones(len(LOGITS)) if weights is None else weights
    return np.stack([w * kind[1](row) for w, row in zip(weights, LOGITS, strict=True)])


def make(kind, weights=None, inputs=LOGITS, **kwargs):
    weights = None if weights is None else tf.constant(weights)
    return kind[0](tf.constant(inputs), weights=weights, **kwargs)


@pytest.mark.parametrize("matrix", ["fisher", "ggn"])
def test_products_are_those_of_the_factor(graph, session, kind, weights, matrix):
    """Unit vectors give the columns of a factor of the Fisher matrix."""
    loss, u = make(kind, weights), tf.constant(OTHER)

    def multiply(what, argument):
        return getattr(loss, f"multiply_{matrix}{what}")(argument)

    columns = [multiply("_factor_replicated_one_hot", [k]) for k in range(3)]
    products = [multiply(what, u) for what in ("", "_factor", "_factor_transpose")]
    columns, products = session.run([columns, products])
    factor = np.stack(columns, axis=-1)
    whole = factor @ factor.transpose(0, 2, 1)
    np.testing.assert_allclose(whole, fishers(kind, weights), rtol=1e-10, atol=1e-14)
    for found, each in zip(products, (whole, factor, factor.transpose(0, 2, 1)), strict=True):
        np.testing.assert_allclose(found, np.einsum("nij,nj->ni", each, OTHER), atol=1e-12)


def test_fisher_matrix_is_the_hessian_of_the_loss(graph, session, kind, weights):
    targets = np.eye(3)[[0, 2, 1, 1]]
    if kind is NATURAL["categorical"]:
        targets = targets.argmax(-1)
    loss = make(kind, weights, targets=tf.constant(targets))
    (gradient,) = v1.gradients(loss.evaluate(), loss.inputs)
    (hessian,) = v1.gradients(tf.reduce_sum(gradient * OTHER), loss.inputs)
    expected = np.einsum("nij,nj->ni", fishers(kind, weights), OTHER)
    np.testing.assert_allclose(session.run(hessian), expected, rtol=1e-10, atol=1e-13)


def test_sampled_gradients_estimate_the_fisher_matrix(graph, session, kind):
    draws = 40_000
    loss = make(kind, weights=np.full(draws, 0.5), inputs=np.tile(LOGITS[0], [draws, 1]))
    sampled = loss.evaluate_on_sample(tf.constant([3, 4]), root_weights=True)
    gradient = session.run(v1.gradients(sampled, loss.inputs)[0])
    # The entries of one outer product are of order 1, so the mean of 40,000 errs by about 0.003.
    found = gradient.T @ gradient / draws
    np.testing.assert_allclose(found, 0.5 * kind[1](LOGITS[0]), atol=0.01)


def test_weights_multiply_each_example(graph, session, kind):
    losses = [make(kind, np.eye(4)[i], targets=make(kind).sample([1, 2])) for i in range(4)]
    by_example = np.array(session.run([loss.evaluate() for loss in losses]))
    loss = make(kind, WEIGHTS, targets=losses[0].targets)
    plain, root = session.run([loss.evaluate(), loss.evaluate(root_weights=True)])
    np.testing.assert_allclose(plain, by_example @ WEIGHTS, rtol=1e-12)
    np.testing.assert_allclose(root, by_example @ np.sqrt(WEIGHTS), rtol=1e-12)


def test_mask_of_sequences(graph, session, kind):
    inputs = RANDOM.randn(2, 3, 4)
    mask = np.array([[True, True, False], [True, False, False]])
    targets = make(kind, inputs=inputs).sample([1, 2])
    found = make(kind, mask, inputs, targets=targets).evaluate()
    rest = make(kind, inputs=inputs[mask], targets=tf.boolean_mask(targets, mask)).evaluate()
    np.testing.assert_allclose(*session.run([found, rest]), rtol=1e-12)
    by_sequence = make(kind, np.array([0.0, 1.0]), inputs, targets=targets).evaluate()
    second = make(kind, inputs=inputs[1], targets=targets[1]).evaluate()
    np.testing.assert_allclose(*session.run([by_sequence, second]), rtol=1e-12)


def test_inner_shapes(graph, session, kind):
    inputs = v1.placeholder(tf.float64, [None, 3])
    loss = kind[0](inputs)
    for matrix in ("fisher", "ggn"):
        static = getattr(loss, f"{matrix}_factor_inner_static_shape")
        assert static.as_list() == [None, 3]
        dynamic = getattr(loss, f"{matrix}_factor_inner_shape")
        assert tuple(session.run(dynamic, {inputs: LOGITS})) == (4, 3)


def test_unit_vectors_of_more_axes(graph, session):
    inputs = v1.placeholder(tf.float64, [None, 2, 3])
    loss = loss_functions.NormalMeanNegativeLogProbLoss(inputs, 4.0)
    found = session.run(
        loss.multiply_fisher_factor_replicated_one_hot((1, 2)), {inputs: np.zeros([5, 2, 3])}
    )
    expected = np.zeros([5, 2, 3])
    expected[:, 1, 2] = 0.5
    np.testing.assert_array_equal(found, expected)


def test_errors(graph):
    def bits(shape):
        return loss_functions.MultiBernoulliNegativeLogProbLoss(
            v1.placeholder(tf.float32, shape), name="heads"
        )

    def weighted(shape):
        weights = v1.placeholder(tf.float64, shape)
        return loss_functions.CategoricalLogitsNegativeLogProbLoss(
            tf.constant(LOGITS), weights=weights, name="digits"
        )

    unit, rank = r"unit vector .*loss 'heads'", r"the examples of loss 'digits'.*shape \[batch\]"
    for call, message in (
        (lambda: bits([None, 3]).multiply_fisher_factor_replicated_one_hot((0, 1)), unit),
        (lambda: bits([4, None]).multiply_fisher_factor_replicated_one_hot((0,)), unit),
        (lambda: weighted([4, 3]).evaluate_on_sample([0, 0]), rank),
        (lambda: weighted([4, 3, 1]).evaluate_on_sample([0, 0]), rank),
        (lambda: weighted(None).evaluate_on_sample([0, 0]), rank),
        (lambda: insert_slice_in_zeros(tf.zeros([2, 3]), 1, 4, 0), "axis 1 is 3. It must be 1"),
        (lambda: insert_slice_in_zeros(tf.zeros([2, 1]), 1, 4, -1), "position -1 of axis 1"),
        (lambda: insert_slice_in_zeros(tf.zeros([2, 1]), 1, 4, 4), "position 4 of axis 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_targets_and_seeds_are_needed(graph, kind):
    loss = make(kind, name="head")
    with pytest.raises(ValueError, match=r"Cannot evaluate loss 'head' on data: it has no targets"):
        loss.evaluate()
    with pytest.raises(ValueError, match=r"Cannot draw targets of loss 'head': the seed is a"):
        loss.sample(tf.zeros([3]))


DRAWS = np.tile(LOGITS, [100, 1])  # So many that no two draws give the same loss.


def test_seeds(graph, session, kind):
    losses = [make(kind, inputs=DRAWS, seed=seed) for seed in (11, 11, 12, None, None)]
    values = [loss.evaluate_on_sample() for loss in losses]
    values.append(make(kind, inputs=DRAWS, seed=12).evaluate_on_sample(11))
    first, again, *others, explicit = session.run(values)
    assert first == again == explicit
    assert len({first, *others}) == 4
    loss = make(kind, inputs=DRAWS)
    drawn = loss.sample(None), loss.sample(42), loss.evaluate_on_sample(42), loss.sample((42, 0))
    runs = [session.run(drawn) for _ in range(2)]
    changes = [(one != other).any() for one, other in zip(*runs, strict=True)]
    assert changes == [True, True, True, False]


def test_no_gradient_passes_through_samples(graph, session):
    mean = tf.constant(LOGITS)
    loss = loss_functions.NormalMeanNegativeLogProbLoss(mean)
    sample = loss.sample([1, 2])
    gradient = v1.gradients(loss.evaluate_on_sample([1, 2]), mean)[0]
    found, expected = session.run([gradient, 2 * (mean - sample)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_slice_in_zeros(graph, session):
    found = session.run(
        [
            insert_slice_in_zeros(tf.constant([[1.0, 2.0]]), 0, 3, 2),
            insert_slice_in_zeros(tf.constant([[1.0], [2.0]]), 1, 3, 0),
        ]
    )
    np.testing.assert_array_equal(found[0], [[0, 0], [0, 0], [1, 2]])
    np.testing.assert_array_equal(found[1], [[1, 0, 0], [2, 0, 0]])
