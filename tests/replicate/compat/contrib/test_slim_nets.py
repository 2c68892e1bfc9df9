"""Networks of tf.contrib.slim.nets are built, and give the variables of published checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import slim

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


def finite(values, shape):
    assert values.shape == shape
    assert np.isfinite(values).all()


def names(ending):
    return [each.op.name for each in slim.get_model_variables() if each.op.name.endswith(ending)]


@pytest.mark.parametrize(("version", "is_training"), [(1, True), (2, False)])
def test_residual_network_of_few_blocks_runs(version, is_training, evaluate):
    nets = getattr(slim.nets, f"resnet_v{version}")
    block = getattr(nets, f"resnet_v{version}_block")("block1", 4, 2, 2)
    build = getattr(nets, f"resnet_v{version}")
    with slim.arg_scope(nets.resnet_arg_scope(weight_decay=0.1)):
        images = tf.ones([2, 33, 33, 3])
        logits, end_points = build(images, [block], 5, is_training, scope="net")
    unit = f"net/block1/unit_1/bottleneck_v{version}"
    if version == 1:
        assert f"{unit}/shortcut/BatchNorm/moving_mean" in names("moving_mean")
    else:
        assert f"{unit}/preact/gamma" in names("gamma")
        assert "net/postnorm/moving_variance" in names("moving_variance")
    assert end_points["predictions"].shape == [2, 1, 1, 5]
    assert bool(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == is_training
    finite(evaluate(logits), (2, 1, 1, 5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "size", "scope", "weights"),
    [
        ("inception.inception_v1", 224, "inception.inception_v1_arg_scope", 58),
        ("inception.inception_v2", 224, "inception.inception_v2_arg_scope", 71),
        ("inception.inception_v3", 299, "inception.inception_v3_arg_scope", 98),
        ("resnet_v1.resnet_v1_50", 224, "resnet_v1.resnet_arg_scope", 54),
        ("resnet_v2.resnet_v2_50", 64, "resnet_v2.resnet_arg_scope", 54),
        ("vgg.vgg_a", 224, "vgg.vgg_arg_scope", 11),
        ("alexnet.alexnet_v2", 224, "alexnet.alexnet_v2_arg_scope", 8),
        ("overfeat.overfeat", 231, "overfeat.overfeat_arg_scope", 8),
    ],
)
def test_network_gives_finite_logits(network, size, scope, weights, evaluate):
    module, _, name = network.partition(".")
    build = getattr(getattr(slim.nets, module), name)
    arguments = getattr(getattr(slim.nets, module), scope.partition(".")[2])
    with slim.arg_scope(arguments()):
        logits, _ = build(tf.ones([1, size, size, 3]), 6, is_training=False)
    assert len(names("weights")) == weights
    finite(evaluate(tf.reshape(logits, [1, -1])), (1, 6))
