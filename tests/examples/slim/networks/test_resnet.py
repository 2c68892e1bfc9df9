"""Shapes and parameters of residual networks, by table 1 of He et al. (2015)."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks import factory

v1 = tf.compat.v1
UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
SIDES = (56, 28, 14, 7)


def stem_and_logits(features):
    return 7 * 7 * 3 * 64 + (features + 1) * 1000


def basic(before, width):
    """Weights of two 3x3 convolutions, and of a shortcut if shapes differ."""
    return 3 * 3 * before * width + 3 * 3 * width * width + (before != width) * before * width


def bottleneck(before, width):
    """Weights of 1x1, 3x3 and 1x1 convolutions, and of a shortcut if shapes differ."""
    own = before * width + 3 * 3 * width * width + width * 4 * width
    return own + (before != 4 * width) * before * 4 * width


def weights(depth):
    """All weights of convolutions and logits, and the biases of the logits."""
    unit, widening = (bottleneck, 4) if depth == 50 else (basic, 1)
    before, total = 64, stem_and_logits(512 * widening)
    for stage, count in enumerate(UNITS[depth]):
        for _ in range(count):
            total += unit(before, 64 * 2**stage)
            before = 64 * 2**stage * widening
    return total


def normalized(version, depth):
    """Channels that are normalized: after each convolution in v1, before all but one in v2."""
    widths = [64 * 2**stage for stage in range(4)]
    per_unit = 6 if depth == 50 else 2
    inner = sum(count * per_unit * width for count, width in zip(UNITS[depth], widths, strict=True))
    shortcuts = 4 * sum(widths) if depth == 50 else sum(widths[1:])
    return 64 + inner + (shortcuts if version == 1 else 0)


@pytest.mark.parametrize(
    ("version", "depth", "total"),
    [
        (1, 18, 11_689_512),
        (1, 34, 21_797_672),
        (1, 50, 25_557_032),
        (2, 18, 11_687_720),
        # Its units are those of 18, and their numbers those of version 1.
        pytest.param(2, 34, 21_795_880, marks=pytest.mark.slow),
        (2, 50, 25_549_352),
    ],
)
def test_shapes_and_parameters_of_the_paper(build, version, depth, total):
    resnet = build(f"resnet_v{version}_{depth}", 224, 3, 1000)
    assert resnet.network_fn.default_image_size == 224
    assert resnet.parameters == weights(depth) + 2 * normalized(version, depth) == total
    widening = 4 if depth == 50 else 1
    expected = {"conv1": (112, 112, 64), "pool1": (56, 56, 64)}
    for stage, count in enumerate(UNITS[depth], start=1):
        side, channels = SIDES[stage - 1], widening * 64 * 2 ** (stage - 1)
        for unit in range(1, count + 1):
            expected[f"block{stage}/unit{unit}"] = (side, side, channels)
    features = (512 * widening,)
    expected |= {"PreLogits": features, "Logits": (1000,), "Predictions": (1000,)}
    assert resnet.shapes == expected
    convolutions = [name for name in resnet.trainable if "/conv" in name and name[-7:] == "weights"]
    assert len(convolutions) == depth - 2  # the first one and the logits are layers, too


@pytest.mark.parametrize(("version", "name"), [(1, "conv2/BatchNorm"), (2, "postact")])
def test_unit_adds_to_its_input(graph, version, name):
    """Without a residual, v1 lets through what is positive, and v2 everything."""
    images = tf.constant(np.random.RandomState(0).randn(2, 16, 16, 3).astype(np.float32))
    network_fn = factory.get_network_fn(f"resnet_v{version}_18", None)
    _, ends = network_fn(images, depth_multiplier=1 / 8)
    last = {1: "conv2/BatchNorm/gamma", 2: "conv2/weights"}[version]
    zeroed = [v for v in v1.trainable_variables() if v.op.name.endswith(f"unit2/{last}")]
    assert len(zeroed) == 4
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run([v.assign(tf.zeros_like(v)) for v in zeroed])
        for block in range(1, 5):
            before, after = session.run([ends[f"block{block}/unit1"], ends[f"block{block}/unit2"]])
            np.testing.assert_array_equal(after, before)
            assert (before.min() < 0) == (version == 2)
