"""Networks of tf.contrib.slim.nets are built, and give the variables of published checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import slim

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


def finite(logits, shape):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        values = session.run(logits)
    assert values.shape == shape
    assert np.isfinite(values).all()


def names(ending):
    return [each.op.name for each in slim.get_model_variables() if each.op.name.endswith(ending)]


@pytest.mark.parametrize("is_training", [False, True])
def test_residual_network_of_few_blocks_runs(is_training):
    nets = slim.nets.resnet_v1
    blocks = [nets.resnet_v1_block("block1", 4, 2, 2)]
    with slim.arg_scope(nets.resnet_arg_scope(weight_decay=0.1)):
        logits, end_points = nets.resnet_v1(
            tf.ones([2, 33, 33, 3]), blocks, 5, is_training, scope="net"
        )
    unit = "net/block1/unit_1/bottleneck_v1"
    assert f"{unit}/shortcut/BatchNorm/moving_mean" in names("moving_mean")
    assert end_points["predictions"].shape == [2, 1, 1, 5]
    assert bool(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == is_training
    finite(logits, (2, 1, 1, 5))


def test_resnet_v2_50_has_its_variables():
    nets = slim.nets.resnet_v2
    with slim.arg_scope(nets.resnet_arg_scope()):
        logits, _ = nets.resnet_v2_50(tf.ones([1, 64, 64, 3]), 7, is_training=False)
    assert logits.shape == [1, 1, 1, 7]
    assert "resnet_v2_50/block4/unit_3/bottleneck_v2/preact/gamma" in names("gamma")
    assert "resnet_v2_50/postnorm/moving_variance" in names("moving_variance")
    assert len(names("weights")) == 54


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "size", "scope", "weights"),
    [
        ("inception.inception_v1", 224, "inception.inception_v1_arg_scope", 58),
        ("inception.inception_v2", 224, "inception.inception_v2_arg_scope", 71),
        ("inception.inception_v3", 299, "inception.inception_v3_arg_scope", 98),
        ("resnet_v1.resnet_v1_50", 224, "resnet_v1.resnet_arg_scope", 54),
        ("vgg.vgg_a", 224, "vgg.vgg_arg_scope", 11),
        ("alexnet.alexnet_v2", 224, "alexnet.alexnet_v2_arg_scope", 8),
        ("overfeat.overfeat", 231, "overfeat.overfeat_arg_scope", 8),
    ],
)
def test_network_gives_finite_logits(network, size, scope, weights):
    module, _, name = network.partition(".")
    build = getattr(getattr(slim.nets, module), name)
    arguments = getattr(getattr(slim.nets, module), scope.partition(".")[2])
    with slim.arg_scope(arguments()):
        logits, _ = build(tf.ones([1, size, size, 3]), 6, is_training=False)
    assert len(names("weights")) == weights
    finite(tf.reshape(logits, [1, -1]), (1, 6))


def test_mobile_network_has_depthwise_variables_and_skips_none():
    with slim.arg_scope(
        [slim.conv2d, slim.separable_conv2d],
        activation_fn=tf.nn.relu6,
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": True, "center": True, "scale": True, "decay": 0.9997},
        weights_initializer=v1.truncated_normal_initializer(stddev=0.09),
    ):
        net = slim.conv2d(tf.ones([2, 16, 16, 3]), 8, [3, 3], stride=2, scope="Conv2d_0")
        net = slim.separable_conv2d(
            net, None, [3, 3], depth_multiplier=1, stride=1, rate=1, scope="Conv2d_1_depthwise"
        )
        net = slim.conv2d(net, 16, [1, 1], scope="Conv2d_1_pointwise")
    net = slim.avg_pool2d(net, [8, 8], padding="VALID", scope="AvgPool_1a")
    net = slim.dropout(net, keep_prob=0.999, scope="Dropout_1b")
    net = slim.conv2d(net, 5, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c")
    depthwise = slim.get_model_variables("Conv2d_1_depthwise")
    assert {each.op.name.removeprefix("Conv2d_1_depthwise/") for each in depthwise} == {
        "depthwise_weights",
        *(f"BatchNorm/{name}" for name in ("beta", "gamma", "moving_mean", "moving_variance")),
    }
    finite(tf.squeeze(net, [1, 2]), (2, 5))
