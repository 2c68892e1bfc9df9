"""Steps of the small network: N clones as one, shares of a batch, averages, chosen variables."""

import numpy as np
import pytest
import tensorflow as tf

import model_deploy
import replicate
from examples.slim.image_classifier import clones, training
from examples.slim.image_classifier.data_flags import FlagError

v1 = tf.compat.v1
WEIGHTS = "net/logits/weights"
NETWORK = clones.Network(model_name="two_heads", num_classes=6, weight_decay=0.1)


@pytest.fixture
def train(fake_network, batch, tmp_path):
    """Trains some steps on one batch, of 6 images, and returns the Estimator."""

    def run(settings, steps, folder="model"):
        images, labels = batch[0][:6], batch[1][:6]
        estimator = replicate.Estimator(
            training.model_fn,
            str(tmp_path / folder),
            replicate.RunConfig(progress="off", save_summary_steps=None),
            settings,
        )
        estimator.train(lambda: (tf.constant(images), tf.constant(labels)), max_steps=steps)
        return estimator

    return run


def softmax_gradient(images, labels, weights):
    pixels = np.hstack([images.reshape(len(images), -1), np.ones([len(images), 1])])
    logits = pixels @ weights
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return pixels.T @ (probabilities - np.eye(6)[labels]) / len(images)


@pytest.mark.parametrize("num_clones", [1, 3])
def test_any_number_of_clones_makes_the_step_of_one(train, training_settings, batch, num_clones):
    estimator = train(training_settings(num_clones, weight_decay=0.2), 4)
    weights = np.zeros([5, 6])
    penalty = np.array([0.2] * 4 + [0])[:, np.newaxis]
    for _ in range(4):
        gradient = softmax_gradient(batch[0][:6], batch[1][:6], weights)
        weights = weights - 0.1 * (gradient + penalty * weights)
    found = estimator.get_variable_value(WEIGHTS)
    np.testing.assert_allclose(found, weights[:4], rtol=1e-5, atol=1e-7)
    bias = estimator.get_variable_value("net/logits/biases")
    np.testing.assert_allclose(bias, weights[4], rtol=1e-5, atol=1e-7)
    first_share = batch[0][: 6 // num_clones]
    mean = estimator.get_variable_value("net/mean")
    assert mean == pytest.approx(first_share.mean(), rel=1e-5), "statistics of the first clone"


# The thread of the synchronous replicas' queue ends by an exception that nobody needs to see.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("sync", [False, True])
def test_averages_follow_the_updated_variables(train, training_settings, batch, sync):
    settings = training_settings(moving_average_decay=0.9, sync_replicas=sync)
    estimator = train(settings, 3)
    weights, average = np.zeros([5, 6]), np.zeros([5, 6])
    for step in range(3):
        weights = weights - 0.1 * softmax_gradient(batch[0][:6], batch[1][:6], weights)
        seen = step + 1  # The averages are told the global step after the update.
        decay = min(0.9, (1 + seen) / (10 + seen))
        average = decay * average + (1 - decay) * weights
    name = f"{WEIGHTS}/ExponentialMovingAverage"
    np.testing.assert_allclose(estimator.get_variable_value(WEIGHTS), weights[:4], rtol=1e-5)
    found = estimator.get_variable_value(name)
    if sync:  # The chief's thread makes them beside the count of steps.
        assert np.abs(found).max() > 0
    else:
        np.testing.assert_allclose(found, average[:4], rtol=1e-4)
    assert "net/mean/ExponentialMovingAverage" in estimator.get_variable_names()


def test_only_variables_of_the_given_scopes_are_trained(train, training_settings):
    estimator = train(training_settings(trainable_scopes=WEIGHTS, optimizer="momentum"), 2)
    assert np.abs(estimator.get_variable_value(WEIGHTS)).max() > 0
    assert np.abs(estimator.get_variable_value("net/logits/biases")).max() == 0
    slots = [name for name in estimator.get_variable_names() if name.endswith("/Momentum")]
    assert slots == [f"{WEIGHTS}/Momentum"]


def test_kfac_treats_all_clones_as_one_batch(train, training_settings, batch):
    """The targets are sampled, but the average of the inputs is that of all images."""
    inputs = np.hstack([batch[0][:6].reshape(6, 4), np.ones([6, 1])])
    wanted = inputs.T @ inputs / 6
    estimator = train(training_settings(2, optimizer="kfac"), 1)
    found = [estimator.get_variable_value(name) for name in estimator.get_variable_names()]
    assert any(x.shape == (5, 5) and np.allclose(x, wanted, rtol=1e-5) for x in found)
    assert np.abs(estimator.get_variable_value(WEIGHTS)).max() > 0.01


def deployment(count):
    return model_deploy.DeploymentConfig(count, clone_on_cpu=True)


@pytest.mark.parametrize("is_static", [True, False])
def test_shares_form_the_batch_and_differ_by_one_row_at_most(graph, is_static, evaluate):
    for rows in (0, 1, 3, 7, 8):
        images = tf.constant(np.arange(rows * 2).reshape(rows, 2))
        if not is_static:
            images = v1.placeholder_with_default(images, [None, 2])
        labels = tf.range(tf.shape(images)[0])
        shares = clones.split(images, labels, 3)
        found = evaluate(shares)
        sizes = [len(labels) for _, labels in found]
        assert max(sizes) - min(sizes) <= 1
        assert [images.shape[0] for images, _ in shares] == (sizes if is_static else [None] * 3)
        images, labels = map(np.concatenate, zip(*found, strict=True))
        np.testing.assert_array_equal(images[:, 1] // 2, range(rows))
        np.testing.assert_array_equal(labels, range(rows))


def test_heads_have_weighted_losses_in_training(graph, fake_network, batch, evaluate):
    images, labels = map(tf.constant, batch)
    clones.create(NETWORK, deployment(2), images, labels, is_training=False)
    assert not v1.get_collection(v1.GraphKeys.LOSSES)
    assert not v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    with v1.variable_scope("", reuse=True):
        made = clones.create(NETWORK, deployment(2), images, labels, is_training=True)
    assert [clone.outputs.logits.shape[0] for clone in made] == [3, 4]
    losses = v1.get_collection(v1.GraphKeys.LOSSES, made[1].scope)
    # The weights are zero: each class has the same probability.
    np.testing.assert_allclose(evaluate(losses), [np.log(6), 0.4 * np.log(6)], rtol=1e-6)
    assert list(clones.weighted_logits(made[0].outputs)) == ["logits", "aux_logits"]
    picky = clones.Network(model_name="picky", num_classes=6)
    with pytest.raises(FlagError, match=r"does not fit images of \(2, 2, 1\): too small"):
        clones.create(picky, deployment(1), images, labels, is_training=True)


def test_smoothed_targets(graph, fake_network, batch):
    network = clones.Network(model_name="net", num_classes=6, label_smoothing=0.3)
    (clone,) = clones.create(network, deployment(1), *map(tf.constant, batch), is_training=True)
    (loss,) = v1.get_collection(v1.GraphKeys.LOSSES)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        weights = np.random.RandomState(1).randn(4, 6)
        v1.trainable_variables()[0].load(weights, session)
        found, logits = session.run([loss, clone.outputs.logits])
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    targets = 0.7 * np.eye(6)[batch[1]] + 0.3 / 6
    assert found == pytest.approx(-(targets * log_probabilities).sum(axis=1).mean(), rel=1e-5)
