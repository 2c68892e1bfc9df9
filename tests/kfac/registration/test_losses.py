import numpy as np
import pytest
import tensorflow as tf

from kfac import loss_functions

v1 = tf.compat.v1

# For each method: its first arguments, targets, class, and the loss of one row of zeros.
KINDS = {
    "categorical_predictive_distribution": (
        [np.zeros([4, 2])],
        np.zeros(4),
        loss_functions.CategoricalLogitsNegativeLogProbLoss,
        np.log(2),
    ),
    "softmax_cross_entropy_loss": (
        [np.zeros([4, 2])],
        np.zeros(4),
        loss_functions.CategoricalLogitsNegativeLogProbLoss,
        np.log(2),
    ),
    "onehot_categorical_predictive_distribution": (
        [np.zeros([4, 2])],
        np.tile([1, 0], [4, 1]),
        loss_functions.OnehotCategoricalLogitsNegativeLogProbLoss,
        np.log(2),
    ),
    "multi_bernoulli_predictive_distribution": (
        [np.zeros([4, 2])],
        np.tile([1, 0], [4, 1]),
        loss_functions.MultiBernoulliNegativeLogProbLoss,
        2 * np.log(2),
    ),
    "sigmoid_cross_entropy_loss": (
        [np.zeros([4, 2])],
        np.tile([1, 0], [4, 1]),
        loss_functions.MultiBernoulliNegativeLogProbLoss,
        2 * np.log(2),
    ),
    "normal_predictive_distribution": (
        [np.zeros([4, 2]), 2.0],
        np.ones([4, 2]),
        loss_functions.NormalMeanNegativeLogProbLoss,
        0.5 + np.log(4 * np.pi),
    ),
    "squared_error_loss": (
        [np.zeros([4, 2])],
        np.ones([4, 2]),
        loss_functions.NormalMeanNegativeLogProbLoss,
        2.0 + np.log(np.pi),
    ),
    "normal_mean_variance_predictive_distribution": (
        [np.zeros([4, 2]), np.full([4, 2], 2.0)],
        np.ones([4, 2]),
        loss_functions.NormalMeanVarianceNegativeLogProbLoss,
        0.5 + np.log(4 * np.pi),
    ),
}


def register(collection, kind="softmax_cross_entropy_loss", **kwargs):
    inputs, targets, *_ = KINDS[kind]
    inputs = [x if isinstance(x, float) else tf.constant(x) for x in inputs]
    targets = tf.constant(targets)
    getattr(collection, f"register_{kind}")(*inputs, targets=targets, **kwargs)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(collection, session, kind):
    *_, cls, value = KINDS[kind]
    register(collection, kind, name="a", coeff=3.0)
    register(collection, kind, name="a", coeff=3.0, reuse=True, weights=tf.constant([2.0, 1, 0, 0]))
    register(collection, kind)
    assert [type(loss) for loss in collection.losses] == [cls] * 3
    assert [loss.name for loss in collection.losses] == ["a", "a", "loss_0"]
    found = session.run(collection.eval_losses())
    np.testing.assert_allclose(found, value * np.array([3 * 4, 3 * 3, 4]), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_its_arguments_in_order(collection, session, kind):
    inputs, targets, *_, value = KINDS[kind]
    inputs = [x if isinstance(x, float) else tf.constant(x) for x in inputs]
    method = getattr(collection, f"register_{kind}")
    method(*inputs, 7, tf.constant(targets), "a", 0.5, v1.AUTO_REUSE, tf.ones([4]))
    entry = collection.losses_by_name["a"]
    assert (entry.coeff, entry.seed, len(entry.towers)) == (0.5, "7", 1)
    np.testing.assert_allclose(session.run(collection.total_loss()), 2 * value, rtol=1e-6)


def test_towers(collection):
    for name, reuse in (("a", False), ("b", False), ("a", True)):
        register(collection, name=name, reuse=reuse)
    assert [loss.name for loss in collection.losses] == ["a", "a", "b"]
    assert [len(towers) for towers in collection.towers_by_loss] == [2, 1]


def test_coefficients_by_loss(collection):
    register(collection, name="a", coeff=2.0)
    register(collection, name="b")
    register(collection, name="a", coeff=2.0, reuse=True)
    assert [collection.loss_coeffs[loss] for loss in collection.losses] == [2.0, 2.0, 1.0]


def test_ops_that_compute_the_inputs_of_losses(collection):
    for tower in range(2):
        with v1.device(f"/cpu:{tower}"):
            register(collection, name="a", reuse=tower > 0)
    ops = [collection.loss_colocation_ops[loss] for loss in collection.losses]
    assert ops == [loss.inputs.op for loss in collection.losses]
    assert [op.device for op in ops] == ["/device:CPU:0", "/device:CPU:1"]


def test_totals(collection, session):
    register(collection, name="a", coeff=4.0)
    register(collection, name="b")
    totals = [collection.total_loss(), collection.total_sampled_loss("sqrt", sample_step=3)]
    # Two classes of equal logits: every target costs log 2, drawn or not.
    expected = [4 * np.log(2) * (4 + 1), 4 * np.log(2) * (2 + 1)]
    np.testing.assert_allclose(session.run(totals), expected, rtol=1e-6)


def test_sampled_gradients_estimate_the_fisher_matrix(collection, session):
    logits = tf.zeros([1, 2])
    collection.register_softmax_cross_entropy_loss(logits)
    values = collection.total_sampled_loss(), *collection.eval_losses("sample")
    gradients = [v1.gradients(value, logits)[0] for value in values]
    draws = np.array([session.run(gradients) for _ in range(100)])[:, :, 0]
    # F = diag(p) - p pT. The mean of the gradients is 0, give or take 0.05.
    np.testing.assert_allclose(draws.mean(0), 0, atol=0.25)
    found = np.einsum("nki,nkj->kij", draws, draws) / len(draws)
    np.testing.assert_allclose(found, [[[0.25, -0.25], [-0.25, 0.25]]] * 2)


def test_losses_are_evaluated_where_their_inputs_are(collection):
    for tower in range(2):
        with v1.device(f"/cpu:{tower}"):
            register(collection, name="a", reuse=tower > 0)
    devices = [value.device for value in collection.eval_losses("sample")]
    assert devices == ["/device:CPU:0", "/device:CPU:1"]


def test_errors_leave_the_losses(collection):
    with pytest.raises(ValueError, match=r"Pass name="), v1.variable_scope("", reuse=True):
        register(collection)
    with pytest.raises(KeyError, match=r"no loss of that name"):
        register(collection, name="a", reuse=True)
    register(collection, name="a")
    with pytest.raises(KeyError, match=r"one of that name already"):
        register(collection, name="a", reuse=False)
    with pytest.raises(ValueError, match=r"its coefficient was 1.0, now it is 2.0"):
        register(collection, name="a", coeff=2.0, reuse=True)
    with pytest.raises(ValueError, match=r"now as MultiBernoulli"):
        register(collection, "sigmoid_cross_entropy_loss", name="a", reuse=True)
    with pytest.raises(ValueError, match=r"loss 'loss_0': var=0"):
        collection.register_normal_predictive_distribution(tf.zeros([4, 2]), 0)
    assert len(collection.losses) == 1


def test_other_graph(collection):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"loss 'a': its tensors are in"):
        register(collection, "normal_mean_variance_predictive_distribution", name="a")
    assert not collection.losses
