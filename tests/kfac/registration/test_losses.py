import numpy as np
import pytest
import tensorflow as tf

from kfac import loss_functions

v1 = tf.compat.v1

ZEROS, ONES, FIRST = np.zeros([4, 2]), np.ones([4, 2]), np.tile([1, 0], [4, 1])

# For each method: its first arguments, targets, class, and the loss of one row of zeros.
CATEGORICAL = [ZEROS], np.zeros(4), loss_functions.CategoricalLogitsNegativeLogProbLoss, np.log(2)
BITS = [ZEROS], FIRST, loss_functions.MultiBernoulliNegativeLogProbLoss, 2 * np.log(2)
KINDS = {
    "categorical_predictive_distribution": CATEGORICAL,
    "softmax_cross_entropy_loss": CATEGORICAL,
    "onehot_categorical_predictive_distribution": (
        [ZEROS], FIRST, loss_functions.OnehotCategoricalLogitsNegativeLogProbLoss, np.log(2),
    ),
    "multi_bernoulli_predictive_distribution": BITS,
    "sigmoid_cross_entropy_loss": BITS,
    "normal_predictive_distribution": (
        [ZEROS, 2.0], ONES, loss_functions.NormalMeanNegativeLogProbLoss,
        0.5 + np.log(4 * np.pi),
    ),
    "squared_error_loss": (
        [ZEROS], ONES, loss_functions.NormalMeanNegativeLogProbLoss, 2.0 + np.log(np.pi),
    ),
    "normal_mean_variance_predictive_distribution": (
        [ZEROS, np.full([4, 2], 2.0)], ONES, loss_functions.NormalMeanVarianceNegativeLogProbLoss,
        0.5 + np.log(4 * np.pi),
    ),
}  # fmt: skip


def register(collection, kind="softmax_cross_entropy_loss", *arguments, **kwargs):
    """Registers a loss; arguments follow its targets."""
    inputs, targets, *_ = KINDS[kind]
    inputs = [x if isinstance(x, float) else tf.constant(x) for x in inputs]
    seed = kwargs.pop("seed", None)
    getattr(collection, f"register_{kind}")(
        *inputs, seed, tf.constant(targets), *arguments, **kwargs
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_its_arguments_in_order(collection, session, kind):
    *_, cls, value = KINDS[kind]
    weights = tf.constant([2.0, 1, 0, 0])
    register(collection, kind, "a", 3.0, v1.AUTO_REUSE, seed=7)
    register(collection, kind, "a", 3.0, True, weights, seed=7)
    register(collection, kind)
    assert [type(loss) for loss in collection.losses] == [cls] * 3
    assert [loss.name for loss in collection.losses] == ["a", "a", "loss_0"]
    entry = collection.losses_by_name["a"]
    assert (entry.coeff, entry.seed, len(entry.towers)) == (3.0, "7", 2)
    found = session.run(collection.eval_losses())
    np.testing.assert_allclose(found, value * np.array([3 * 4, 3 * 3, 4]), rtol=1e-6)


def test_losses_of_towers(collection):
    for name, coeff, tower in (("a", 2.0, 0), ("b", 1.0, 0), ("a", 2.0, 1)):
        with v1.device(f"/cpu:{tower}"):
            register(collection, name=name, coeff=coeff, reuse=tower > 0)
    losses = collection.losses
    assert [loss.name for loss in losses] == ["a", "a", "b"]
    assert [len(towers) for towers in collection.towers_by_loss] == [2, 1]
    assert [collection.loss_coeffs[loss] for loss in losses] == [2.0, 2.0, 1.0]
    ops = [collection.loss_colocation_ops[loss] for loss in losses]
    assert ops == [loss.inputs.op for loss in losses]
    devices = [f"/device:CPU:{tower}" for tower in (0, 1, 0)]
    assert [op.device for op in ops] == devices
    assert [value.device for value in collection.eval_losses("sample")] == devices


def test_totals(collection, session):
    register(collection, name="a", coeff=4.0)
    register(collection, name="b")
    totals = [collection.total_loss(), collection.total_sampled_loss("sqrt", sample_step=3)]
    # Two classes of equal logits: every target costs log 2, drawn or not.
    expected = [4 * np.log(2) * (4 + 1), 4 * np.log(2) * (2 + 1)]
    np.testing.assert_allclose(session.run(totals), expected, rtol=1e-6)


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
