"""Shares of a batch, and the losses that clones leave."""

import numpy as np
import pytest
import tensorflow as tf

import model_deploy
from examples.slim.image_classifier import clones
from examples.slim.image_classifier.data_flags import FlagError

v1 = tf.compat.v1
NETWORK = clones.Network(model_name="two_heads", num_classes=6, weight_decay=0.1)


def deployment(count):
    return model_deploy.DeploymentConfig(count, clone_on_cpu=True)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8])
@pytest.mark.parametrize("is_static", [True, False])
def test_shares_form_the_batch_and_differ_by_one_row_at_most(graph, rows, is_static):
    images = tf.constant(np.arange(rows * 2).reshape(rows, 2))
    if not is_static:
        images = v1.placeholder_with_default(images, [None, 2])
    labels = tf.range(tf.shape(images)[0])
    with v1.Session() as session:
        found = session.run(clones.split(images, labels, 3))
    sizes = [len(labels) for _, labels in found]
    assert max(sizes) - min(sizes) <= 1
    assert np.concatenate([labels for _, labels in found]).tolist() == list(range(rows))
    np.testing.assert_array_equal(
        np.concatenate([images for images, _ in found])[:, 1] // 2, range(rows)
    )


def test_static_shapes_stay(graph):
    shares = clones.split(tf.zeros([7, 2, 2, 1]), tf.zeros([7]), 2)
    assert [images.shape[0] for images, _ in shares] == [3, 4]


def test_heads_have_weighted_losses_in_training(graph, fake_network, batch):
    made = clones.create(NETWORK, deployment(2), *map(tf.constant, batch), is_training=True)
    assert [clone.outputs.logits.shape[0] for clone in made] == [3, 4]
    losses = v1.get_collection(v1.GraphKeys.LOSSES, made[1].scope)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        # The weights are zero: each class has the same probability.
        np.testing.assert_allclose(session.run(losses), [np.log(6), 0.4 * np.log(6)], rtol=1e-6)
    assert len(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)) == 1
    assert list(clones.weighted_logits(made[0].outputs)) == ["logits", "aux_logits"]


def test_smoothed_targets(graph, fake_network, batch):
    network = clones.Network(model_name="net", num_classes=6, label_smoothing=0.3)
    (clone,) = clones.create(network, deployment(1), *map(tf.constant, batch), is_training=True)
    (loss,) = v1.get_collection(v1.GraphKeys.LOSSES)
    random = np.random.RandomState(1)
    weights = random.randn(4, 6).astype(np.float32)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.trainable_variables()[0].load(weights, session)
        found, logits = session.run([loss, clone.outputs.logits])
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    targets = 0.7 * np.eye(6)[batch[1]] + 0.3 / 6
    assert found == pytest.approx(-(targets * log_probabilities).sum(axis=1).mean(), rel=1e-5)


def test_evaluation_leaves_no_losses(graph, fake_network, batch):
    clones.create(NETWORK, deployment(2), *map(tf.constant, batch), is_training=False)
    assert not v1.get_collection(v1.GraphKeys.LOSSES)
    assert not v1.get_collection(v1.GraphKeys.UPDATE_OPS)


def test_wrong_image_size_is_a_flag_error(graph, fake_network, batch):
    network = clones.Network(model_name="picky", num_classes=6)
    with pytest.raises(FlagError, match=r"does not fit images of \(2, 2, 1\): too small"):
        clones.create(network, deployment(1), *map(tf.constant, batch), is_training=True)
