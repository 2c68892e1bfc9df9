"""Layers, initializers, regularizers and optimize_loss of slim and tf.contrib.layers, by NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import layers, slim

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")
RANDOM = np.random.default_rng(1)
IMAGES = RANDOM.normal(size=[2, 4, 4, 3]).astype("f4")
ROWS = RANDOM.normal(size=[5, 3]).astype("f4")
ONES = v1.ones_initializer()
SUM = ROWS.sum(1, keepdims=True)
RELU = np.maximum(SUM, 0)


def windows(size, stride):
    places = range(0, IMAGES.shape[1] - size + 1, stride)
    return np.array(
        [[IMAGES[:, i : i + size, j : j + size] for j in places] for i in places]
    ).transpose(2, 0, 1, 3, 4, 5)


def normalized(x, axes, epsilon):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def agree(pairs, evaluate):
    """Evaluates all tensors in one session, and compares each with the number beside it."""
    found = evaluate({name: tensor for name, (tensor, _) in pairs.items()})
    for name, (_, expected) in pairs.items():
        np.testing.assert_allclose(found[name], expected, atol=2e-5, err_msg=name)


def test_convolutions_and_pools_agree_with_numpy(evaluate):
    valid = {"padding": "VALID", "activation_fn": None, "weights_initializer": ONES}
    enlarged = IMAGES.sum(3, keepdims=True).repeat(2, axis=1).repeat(2, axis=2)
    sums = windows(2, 1).sum((3, 4))
    pairs = {
        "conv2d": (
            slim.conv2d(IMAGES, 2, 3, **valid),
            windows(3, 1).sum((3, 4, 5))[..., None] * np.ones([2]),
        ),
        "conv2d_transpose": (
            slim.conv2d_transpose(IMAGES, 1, 2, stride=2, **{**valid, "padding": "SAME"}),
            enlarged,
        ),
        "depthwise": (slim.separable_conv2d(IMAGES, None, 2, 1, **valid), sums),
        "in_plane": (slim.conv2d_in_plane(tf.constant(IMAGES), 2, **valid), sums),
        "max_pool2d": (slim.max_pool2d(IMAGES, 2), windows(2, 2).max((3, 4))),
    }
    agree(pairs, evaluate)


def test_dense_layers_norms_and_regularizers_agree_with_numpy(evaluate):
    rows = tf.constant(ROWS)
    length, squares = abs(ROWS).sum(), (ROWS**2).sum()
    ones = {"weights_initializer": ONES}
    pairs = {
        "linear": (layers.linear(ROWS, 2, biases_initializer=ONES, **ones), SUM + np.ones([2])),
        "stack": (slim.stack(ROWS, slim.fully_connected, [2, 1], **ones), 2 * RELU),
        "unit_norm": (
            layers.unit_norm(rows, 1),
            ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True),
        ),
        "layer_norm": (layers.layer_norm(IMAGES), normalized(IMAGES, (1, 2, 3), 1e-12)),
        "instance_norm": (layers.instance_norm(IMAGES), normalized(IMAGES, (1, 2), 1e-6)),
        "group_norm": (layers.group_norm(IMAGES, groups=1), normalized(IMAGES, (1, 2, 3), 1e-6)),
        "maxout": (layers.maxout(rows, 1), ROWS.max(1, keepdims=True)),
        "both": (layers.l1_l2_regularizer(0.1, 0.2)(rows), 0.1 * length + 0.1 * squares),
        "apply": (layers.apply_regularization(layers.l2_regularizer(2.0), [rows]), squares),
    }
    agree(pairs, evaluate)


@pytest.mark.parametrize(
    "optimizer",
    [
        "SGD",
        v1.train.GradientDescentOptimizer,
        v1.train.GradientDescentOptimizer(0.5),
        functools.partial(v1.train.GradientDescentOptimizer, name="Mine"),
    ],
    ids=["name", "class", "instance", "function"],
)
def test_optimize_loss_clips_multiplies_and_counts(optimizer):
    step = v1.train.get_or_create_global_step()
    w = v1.get_variable("w", initializer=[3.0, 4.0])
    train = layers.optimize_loss(
        tf.reduce_sum(w**2) / 2,
        step,
        0.5,
        optimizer,
        clip_gradients=1.0,
        gradient_multipliers={w: 2.0},
        summaries=["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"],
    )
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train) == pytest.approx(12.5)
        np.testing.assert_allclose(session.run(w), [3 - 0.5 * 0.6, 4 - 0.5 * 0.8], rtol=1e-5)
        assert session.run(step) == 1
    tags = [each.op.name for each in v1.get_collection(v1.GraphKeys.SUMMARIES)]
    assert "OptimizeLoss/loss" in tags
    assert len(tags) == 5


def test_optimize_loss_decays_the_rate_and_adds_noise():
    step = v1.train.get_or_create_global_step()
    w = v1.get_variable("w", initializer=[1.0])
    train = layers.optimize_loss(
        w[0],
        step,
        tf.constant(1.0),
        "SGD",
        learning_rate_decay_fn=lambda rate, n: v1.train.exponential_decay(rate, n, 1, 0.5),
        gradient_noise_scale=1e-6,
        clip_gradients=layers.adaptive_clipping_fn(),
    )
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        values = []
        for _ in range(2):
            session.run(train)
            values.append(session.run(w)[0])
    assert values == pytest.approx([0.0, -0.5], abs=1e-4)
