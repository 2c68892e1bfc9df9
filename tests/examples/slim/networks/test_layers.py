"""Layers against NumPy, and the graph collections that they fill."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import model_deploy
import replicate
from examples.slim.networks import layers as networks
from examples.slim.networks.layers import Layers

v1 = tf.compat.v1
Keys = v1.GraphKeys


def noise(*shape):
    return np.random.RandomState(0).randn(*shape).astype(np.float32)


def run(*fetches):
    """Values with initial weights; variables that are zero at first are given others."""
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable in v1.global_variables():
            if variable.op.name.endswith(("biases", "beta", "moving_mean")):
                session.run(variable.assign(noise(*variable.shape)))
        return session.run(fetches)


def variable(name):
    (found,) = [v for v in v1.global_variables() if v.op.name == name]
    return found


def test_conv2d_is_a_convolution_a_bias_and_a_rectifier(graph):
    images = noise(2, 5, 6, 3)
    outputs = Layers(depth_multiplier=0.5).conv2d("conv", tf.constant(images), 8, (3, 2))
    assert outputs.shape.as_list() == [2, 5, 6, 4]
    values, weights, biases = run(outputs, variable("conv/weights"), variable("conv/biases"))
    window = images[1, 1:4, 3:5]  # of row 2, column 3
    expected = np.maximum(np.einsum("ijc,ijcd->d", window, weights) + biases, 0)
    np.testing.assert_allclose(values[1, 2, 3], expected, rtol=1e-4, atol=1e-6)
    linear = Layers().conv2d(
        "linear", tf.constant(images), 2, 1, stride=2, use_bias=False, activation=None
    )
    values, weights = run(linear, variable("linear/weights"))
    np.testing.assert_allclose(values, images[:, ::2, ::2] @ weights[0, 0], rtol=1e-4, atol=1e-6)
    assert len(v1.global_variables()) == 3


def test_depthwise_filters_each_channel_by_itself(graph):
    images = noise(2, 4, 4, 3)
    outputs = Layers().depthwise_bn("conv", tf.constant(images), 3, stride=2)
    names = "gamma", "beta", "moving_mean", "moving_variance"
    fetches = [variable(f"conv/BatchNorm/{name}") for name in names]
    values, weights, gamma, beta, mean, variance = run(
        outputs, variable("conv/depthwise_weights"), *fetches
    )
    assert values.shape == (2, 2, 2, 3)
    linear = np.einsum("ijc,ijc->c", images[1, :3, :3], weights[..., 0])
    expected = np.maximum((linear - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0)
    np.testing.assert_allclose(values[1, 0, 0], expected, rtol=1e-4, atol=1e-6)


def test_batch_norm_in_training_uses_and_remembers_the_batch(graph):
    images = noise(4, 3, 3, 2) * [2.0, 3.0] + [1.0, -1.0]
    layers = Layers(is_training=True, batch_norm_decay=0.75)
    outputs = layers.batch_norm("norm", tf.constant(images, tf.float32), activation=None)
    update = v1.get_collection(Keys.UPDATE_OPS)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        values, _ = session.run([outputs, update])
        session.run(update)
        mean, variance = session.run(
            [variable("norm/moving_mean"), variable("norm/moving_variance")]
        )
    of_batch = images.mean((0, 1, 2)), images.var((0, 1, 2))
    expected = (images - of_batch[0]) / np.sqrt(of_batch[1] + 1e-3)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    left = 0.75**2
    np.testing.assert_allclose(mean, (1 - left) * of_batch[0], rtol=1e-4)
    unbiased = of_batch[1] * 36 / 35
    np.testing.assert_allclose(variance, left + (1 - left) * unbiased, rtol=1e-4)
    Layers().batch_norm("evaluated", outputs)
    assert v1.get_collection(Keys.UPDATE_OPS) == update


def test_dense_and_logits(graph):
    inputs = noise(5, 4)
    layers = Layers(depth_multiplier=2)
    hidden = layers.dense("hidden", tf.constant(inputs), 3)
    logits, ends = layers.classified(hidden, 3, {})
    names = "hidden/weights", "hidden/biases", "logits/weights", "logits/biases"
    h, y, p, w1, b1, w2, b2 = run(hidden, logits, ends["Predictions"], *map(variable, names))
    assert (h.shape, y.shape) == ((5, 6), (5, 3))
    np.testing.assert_allclose(h, np.maximum(inputs @ w1 + b1, 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(y, h @ w2 + b2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(p, np.exp(y) / np.exp(y).sum(1, keepdims=True), rtol=1e-4)
    # A layer has at least one channel.
    assert Layers(depth_multiplier=0.01).dense("thin", tf.zeros([1, 2]), 3).shape[-1] == 1
    begun = {"conv1": tf.zeros([])}
    same, ends = layers.classified(hidden, 0, begun)
    assert same is hidden
    assert (list(begun), list(ends)) == (["conv1"], ["conv1", "PreLogits"])


def test_pools(graph):
    images = noise(2, 4, 4, 3)
    inputs = tf.constant(images)
    largest, mean, everywhere, row = run(
        networks.max_pool(inputs, 2, 2, "VALID"),
        networks.avg_pool(inputs, 3, 1),
        networks.global_pool(inputs),
        networks.flatten(inputs),
    )
    np.testing.assert_array_equal(largest[0, 1, 0], images[0, 2:, :2].max((0, 1)))
    np.testing.assert_allclose(mean[0, 0, 0], images[0, :2, :2].mean((0, 1)), rtol=1e-4)
    np.testing.assert_allclose(everywhere, images.mean((1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(row, images.reshape(2, -1))
    with pytest.raises(ValueError, match=r"images of shape \(.*\) .* set_shape"):
        networks.flatten(v1.placeholder(tf.float32, [2, None, 4, 3]))


def every_layer(images, weight_decay):
    """One layer of each kind; 3 of them have weights that decay."""
    layers = Layers(is_training=True, weight_decay=weight_decay)
    hidden = layers.conv2d("conv", images, 2, 3)
    hidden = layers.depthwise_bn("depthwise", layers.conv2d_bn("conv_bn", hidden, 2, 1), 3)
    return layers.logits("logits", networks.global_pool(hidden), 2)


def test_weight_decay_is_half_the_square_of_weights_only(graph, evaluate):
    every_layer(tf.constant(noise(2, 4, 4, 3)), weight_decay=0.5)
    decayed = [variable(f"{name}/weights") for name in ("conv", "conv_bn", "logits")]
    losses = v1.get_collection(Keys.REGULARIZATION_LOSSES)
    values, weights = evaluate([losses, decayed])
    np.testing.assert_allclose(values, [0.25 * np.sum(w**2) for w in weights], rtol=1e-5)
    with v1.variable_scope("without"):
        every_layer(tf.constant(noise(2, 4, 4, 3)), weight_decay=0.0)
    assert v1.get_collection(Keys.REGULARIZATION_LOSSES) == losses


def model_fn(features, labels, mode):
    logits = every_layer(features, weight_decay=0.5)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    loss += v1.losses.get_regularization_loss()
    optimizer = replicate.TowerOptimizer(lambda: v1.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_clones_share_variables_and_decay_once(graph):
    images = tf.constant(noise(4, 4, 4, 3))
    config = model_deploy.DeploymentConfig(num_clones=2, clone_on_cpu=True)
    model_deploy.create_clones(config, lambda: every_layer(images, 0.5))
    assert len(v1.get_collection(Keys.REGULARIZATION_LOSSES)) == 3
    assert len(v1.trainable_variables()) == 10
    assert len(v1.get_collection(Keys.MODEL_VARIABLES)) == 14


def test_two_towers_train_as_one_with_equal_statistics():
    """Weights decay once. The moving variance is that of as many pixels as a tower has."""
    images, labels = np.tile(noise(2, 4, 4, 3), (2, 1, 1, 1)), np.array([0, 1, 0, 1])
    check = replicate.check_replication(
        model_fn,
        lambda: tf.data.Dataset.from_tensors((images, labels)),
        ["/cpu:0", "/cpu:1"],
        output=None,
    )
    assert not check.unmatched
    worst = {d.name: d.relative for d in (check.loss, *check.gradients, *check.variables)}
    variances = {worst.pop(name) for name in list(worst) if name.endswith("moving_variance")}
    assert max(worst.values()) < 1e-5
    # 1 % of a variance of 32 / 31 or of 64 / 63 times that of the batch.
    assert 1e-6 < max(variances) < 1e-2 * (32 / 31 - 64 / 63)


def dropped(outputs):
    """Units that dropout has set to zero."""
    return np.asarray(outputs) == 0


def test_dropout_keeps_a_share_and_differs_by_clone_layer_and_step(graph):
    ones = tf.ones([100, 100])
    with pytest.raises(ValueError, match="no global step"):
        Layers(is_training=True).dropout(ones, 0.5)
    step = v1.train.create_global_step()
    layers = Layers(is_training=True)
    config = model_deploy.DeploymentConfig(num_clones=2, clone_on_cpu=True)
    clones = model_deploy.create_clones(config, lambda: layers.dropout(ones, 0.8))
    all_differ = [clones[0].outputs, clones[1].outputs, layers.dropout(ones, 0.8)]
    with v1.Session() as session:
        session.run(step.initializer)
        first, again = session.run(all_differ), session.run(all_differ)
        session.run(step.assign_add(1))
        later = session.run(all_differ[0])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(later[later > 0], 1 / 0.8, rtol=1e-6)
    assert abs(dropped(later).mean() - 0.2) < 0.02
    for one, other in itertools.combinations([*first, later], 2):
        # 0.2 ⋅ 0.8 ⋅ 2 of independent draws
        assert abs((dropped(one) != dropped(other)).mean() - 0.32) < 0.03
    (values,) = run(Layers(is_training=True, dropout_keep_prob=0.2).dropout(ones, 0.9))
    assert abs(dropped(values).mean() - 0.8) < 0.02, "the setting rather than the network's share"
    assert Layers(is_training=True, dropout_keep_prob=1.0).dropout(ones, 0.5) is ones
    assert Layers().dropout(ones, 0.5) is ones, "in evaluation"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0, got nan"),
        ({"depth_multiplier": 0}, "depth_multiplier must be above 0, got 0"),
        ({"batch_norm_decay": 1}, "batch_norm_decay must be at least 0 and below 1, got 1"),
        ({"dropout_keep_prob": 0}, "dropout_keep_prob must be above 0 and at most 1, or None"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Layers(**settings)
    with pytest.raises(TypeError, match=r"is_training must be a Python bool, got <tf\.Tensor"):
        Layers(is_training=tf.constant(True))
