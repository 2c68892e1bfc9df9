"""Inception's shapes, parameters and smallest images."""

import pytest
import tensorflow as tf

from examples.slim.networks import factory

v1 = tf.compat.v1


def conv(size, before, after):
    """Weights of a convolution, scale and shift of its normalization."""
    return size * before * after + 2 * after


def chain(before, *layers):
    """Parameters of convolutions one after the other: (pixels of the window, channels)."""
    total = 0
    for size, channels in layers:
        total += conv(size, before, channels)
        before = channels
    return total


def block_35(before, pooled):
    five, three_twice = ((1, 48), (25, 64)), ((1, 64), (9, 96), (9, 96))
    branches = (((1, 64),), five, three_twice, ((1, pooled),))
    return sum(chain(before, *branch) for branch in branches)


def block_17(width):
    seven = ((1, width), (7, width), (7, 192))
    seven_twice = ((1, width), (7, width), (7, width), (7, width), (7, 192))
    return sum(chain(768, *branch) for branch in (((1, 192),), seven, seven_twice, ((1, 192),)))


def block_8(before):
    three = chain(before, (1, 384)) + 2 * conv(3, 384, 384)
    three_twice = chain(before, (1, 448), (9, 384)) + 2 * conv(3, 384, 384)
    return chain(before, (1, 320)) + three + three_twice + chain(before, (1, 192))


def test_shapes_and_parameters_of_the_released_network(build):
    inception = build("inception_v3", 299, 3, 1000)
    assert inception.network_fn.default_image_size == 299
    stem = chain(3, (9, 32), (9, 32), (9, 64), (1, 80), (9, 192))
    at_35 = block_35(192, 32) + block_35(256, 64) + block_35(288, 64)
    to_17 = chain(288, (9, 384)) + chain(288, (1, 64), (9, 96), (9, 96))
    at_17 = block_17(128) + 2 * block_17(160) + block_17(192)
    to_8 = chain(768, (1, 192), (9, 320)) + chain(768, (1, 192), (7, 192), (7, 192), (9, 192))
    at_8 = block_8(1280) + block_8(2048)
    logits = (2048 + 1) * 1000
    auxiliary = chain(768, (1, 128), (25, 768)) + (768 + 1) * 1000
    body = stem + at_35 + to_17 + at_17 + to_8 + at_8
    assert inception.parameters == body + logits + auxiliary == 27_161_264
    assert inception.shapes == {
        "conv1": (149, 149, 32),
        "conv2": (147, 147, 32),
        "conv3": (147, 147, 64),
        "pool1": (73, 73, 64),
        "conv4": (73, 73, 80),
        "conv5": (71, 71, 192),
        "pool2": (35, 35, 192),
        "mixed35_1": (35, 35, 256),
        "mixed35_2": (35, 35, 288),
        "mixed35_3": (35, 35, 288),
        "reduced17": (17, 17, 768),
        **{f"mixed17_{number}": (17, 17, 768) for number in range(1, 5)},
        "AuxLogits": (1000,),
        "reduced8": (8, 8, 1280),
        "mixed8_1": (8, 8, 2048),
        "mixed8_2": (8, 8, 2048),
        "PreLogits": (2048,),
        "Logits": (1000,),
        "Predictions": (1000,),
    }
    assert inception.trainable["aux_logits/conv2/weights"] == [5, 5, 128, 768]


def test_smallest_images_give_one_pixel_and_zero_classes_no_heads(build):
    inception = build("inception_v3", 75, 3, None, depth_multiplier=1 / 16)
    assert inception.shapes["mixed8_2"] == (1, 1, 128)
    assert inception.logits is inception.end_points["PreLogits"]
    assert not {"AuxLogits", "Logits", "Predictions"} & set(inception.end_points)
    assert not [name for name in inception.trainable if "logits" in name]


@pytest.mark.parametrize("size", [(74, 100), (100, 74), (None, 100)])
def test_smaller_images_are_refused(graph, size):
    images = v1.placeholder(tf.float32, [None, *size, 3])
    message = f"at least 75x75, got {size[0]}x{size[1]}. Enlarge them"
    with pytest.raises(ValueError, match=message):
        factory.get_network_fn("inception_v3", 10)(images)
