"""A convolutional network on two towers: the numbers and the checkpoints of one tower."""

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1

STEPS, BATCH, CLASSES = 12, 16, 4
TOLERANCE = 2e-6
"""Of the largest weight, in float32."""


def batches():
    """Noisy images of four patterns: STEPS batches of (images, labels)."""
    random = np.random.default_rng(1)
    patterns = random.normal(size=[CLASSES, 6, 6, 1])
    labels = random.integers(0, CLASSES, [STEPS, BATCH])
    images = patterns[labels] + 0.5 * random.normal(size=[STEPS, BATCH, 6, 6, 1])
    return images.astype(np.float32), labels.astype(np.int32)


def initial(shape, seed):
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[:-1]))
    return tf.constant(values.astype(np.float32))


def model_fn(features, labels, mode):
    kernel = v1.get_variable("conv/w", initializer=initial([3, 3, 1, 5], 2))
    bias = v1.get_variable("conv/b", initializer=tf.zeros([5]))
    convolved = tf.nn.bias_add(tf.nn.conv2d(features, kernel, 1, "SAME"), bias)
    pooled = tf.nn.max_pool2d(tf.nn.relu(convolved), 3, 2, "SAME")
    flat = tf.reshape(pooled, [-1, 3 * 3 * 5])
    weights = v1.get_variable("dense/w", initializer=initial([45, CLASSES], 3))
    offset = v1.get_variable("dense/b", initializer=tf.zeros([CLASSES]))
    logits = flat @ weights + offset
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(0.05, 0.9))
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(towers, save=None, restore=None):
    """Returns every global variable by name, and the losses, after STEPS steps.

    Saves a checkpoint then, or restores one and returns its variables as a third result.
    """
    images, labels = batches()
    with tf.Graph().as_default():
        features = v1.placeholder(tf.float32, [BATCH, 6, 6, 1])
        targets = v1.placeholder(tf.int32, [BATCH])
        replicated = replicate.replicate_model_fn(
            model_fn,
            loss_reduction=v1.losses.Reduction.MEAN,
            devices=[f"/cpu:{index}" for index in range(towers)],
        )
        spec = replicated(features, targets, "train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [
                session.run([spec.loss, spec.train_op], {features: x, targets: y})[0]
                for x, y in zip(images, labels, strict=True)
            ]
            variables = {v.op.name: v for v in v1.global_variables()}
            found = session.run(variables)
            if save:
                v1.train.Saver().save(session, save)
            if not restore:
                return found, losses
            v1.train.Saver().restore(session, restore)
            return found, losses, session.run(variables)


def test_towers_equal_one_tower_and_share_its_checkpoints(tmp_path):
    path = str(tmp_path / "model.ckpt")
    got, losses = train(towers=2, save=path)
    expected, expected_losses, restored = train(towers=1, restore=path)
    assert sorted(got) == sorted(expected)
    assert losses[-1] < 0.7 * losses[0], "the model must have learned for this to mean something"
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    weights = ["conv/w", "conv/b", "dense/w", "dense/b"]
    largest = max(np.abs(expected[name]).max() for name in weights)
    for name in weights:
        assert np.abs(got[name] - expected[name]).max() <= TOLERANCE * largest, name
    for name, value in got.items():
        np.testing.assert_array_equal(restored[name], value, err_msg=name)
