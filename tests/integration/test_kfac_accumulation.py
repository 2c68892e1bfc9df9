"""K-FAC inside a TowerOptimizer that accumulates: k micro-batches count as one batch."""

import contextlib

import numpy as np
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

MICRO_BATCHES, UPDATES, ROWS, CLASSES = 3, 3, 4, 3


def batches(rows):
    """Images and labels, cut into batches of so many rows."""
    random = np.random.default_rng(1)
    number = MICRO_BATCHES * UPDATES * ROWS
    images = random.normal(size=[number, 4, 4, 2])
    labels = random.integers(0, CLASSES, number)
    return list(
        zip(images.reshape(-1, rows, 4, 4, 2), labels.reshape(-1, rows).tolist(), strict=True)
    )


def initial(shape, seed):
    return tf.constant(np.random.default_rng(seed).normal(size=shape) / 4)


def model_fn(features, labels, mode, params):
    kernel = v1.get_variable("conv/w", initializer=initial([3, 3, 2, 3], 2))
    bias = v1.get_variable("conv/b", initializer=initial([3], 3))
    convolved = tf.nn.conv2d(features, kernel, 2, "SAME") + bias
    flat = tf.reshape(tf.nn.tanh(convolved), [-1, 12])
    weights = v1.get_variable("dense/w", initializer=initial([12, CLASSES], 4))
    offset = v1.get_variable("dense/b", initializer=initial([CLASSES], 5))
    logits = flat @ weights + offset
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    layers = kfac.graph_layer_collection()
    layers.register_conv2d((kernel, bias), (1, 2, 2, 1), "SAME", features, convolved)
    layers.register_fully_connected((weights, offset), flat, logits)
    layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=2,
            learning_rate=0.05,
            damping=0.1,
            layer_collection=layers,
            estimation_mode="empirical",
            cov_update_every=1,
        ),
        accumulate_steps=params["accumulate"],
    )
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


@contextlib.contextmanager
def trainer(rows, towers=1, accumulate=1):
    """Yields a function that trains on data in batches of so many rows, and returns all variables.

    Each call has a session of its own. It begins with the checkpoint `start`, if there is one, and
    saves to `end`.
    """
    with tf.Graph().as_default():
        images = v1.placeholder(tf.float64, [rows, 4, 4, 2])
        labels = v1.placeholder(tf.int64, [rows])
        devices = [f"/cpu:{index}" for index in range(towers)]
        replicated = replicate.replicate_model_fn(
            model_fn, v1.losses.Reduction.MEAN, devices=devices
        )
        spec = replicated(images, labels, "train", {"accumulate": accumulate})
        initializer, saver = v1.global_variables_initializer(), v1.train.Saver()

        def train(data, start=None, end=None):
            with v1.Session() as session:
                session.run(initializer)
                if start:
                    saver.restore(session, start)
                for x, y in data:
                    session.run(spec.train_op, {images: x, labels: y})
                if end:
                    saver.save(session, end)
                return session.run({v.op.name: v for v in v1.global_variables()})

        yield train


def test_two_towers_equal_whole_batches_and_go_on_exactly_within_a_window(tmp_path):
    with trainer(ROWS * MICRO_BATCHES) as train:
        expected = train(batches(ROWS * MICRO_BATCHES))
    data, path = batches(ROWS), str(tmp_path / "first")
    with trainer(ROWS, 2, MICRO_BATCHES) as train:
        straight = train(data)
        train(data[:5], end=path)
        resumed = train(data[5:], start=path)
    assert {"kfac/conv/w/input/cov", "kfac/dense/w/output/inverse", "dense/w/KFAC"} <= set(expected)
    for name in sorted(set(expected) - {"kfac/sample_step"}):
        np.testing.assert_allclose(
            straight[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=name
        )
    assert sorted(resumed) == sorted(straight)
    for name, value in straight.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)
