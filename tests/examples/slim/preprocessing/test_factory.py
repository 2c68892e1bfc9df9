"""Properties of every kind of preprocessing, and of single images."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks.factory import NETWORKS
from examples.slim.preprocessing import factory, pixels

v1 = tf.compat.v1
KINDS = ["lenet", "cifarnet", "vgg", "inception"]
RANDOM = KINDS[1:]


def test_there_is_preprocessing_for_each_network_and_by_kind():
    assert set(factory.PREPROCESSING) == {*NETWORKS, *KINDS}
    networks = {
        kind: {
            name for name in NETWORKS if factory.PREPROCESSING[name] is factory.PREPROCESSING[kind]
        }
        for kind in KINDS
    }
    assert networks["lenet"] == {"lenet"}
    assert networks["cifarnet"] == {"cifarnet"}
    assert networks["inception"] == {"inception_v3", "mobilenet_v1"}
    assert networks["vgg"] == {name for name in NETWORKS if name.startswith(("vgg", "resnet"))}


def test_an_unknown_name_is_refused():
    message = r"no preprocessing 'alexnet'; take one of cifarnet, .*vgg_16\."
    with pytest.raises(ValueError, match=message):
        factory.get_preprocessing("alexnet")


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_images_of_any_size_and_type_get_the_size(prepared, photos, name, is_training):
    colours = prepared(name, photos[:2], 24, 32, is_training=is_training)
    assert (colours.shape, colours.dtype) == ((2, 24, 32, 3), np.float32)
    gray = prepared(name, photos[:2], 24, 32, is_training=is_training, use_grayscale=True)
    assert gray.shape == (2, 24, 32, 1)
    digit = np.arange(64, dtype=np.float32).reshape(8, 8, 1)
    digits = prepared(name, [digit] * 2, 24, 32, is_training=is_training)
    assert digits.shape == (2, 24, 32, 1)
    for images in (colours, gray, digits):
        assert np.isfinite(images).all()
        assert images.std() > 0


@pytest.mark.parametrize("name", RANDOM)
def test_in_training_each_image_differs_and_the_seed_decides(prepared, photos, name):
    values = prepared(name, photos, 24, 32, is_training=True)
    assert len({image.tobytes() for image in values}) == len(photos)
    again = prepared(name, photos, 24, 32, is_training=True)
    np.testing.assert_array_equal(again, values)
    other = prepared(name, photos, 24, 32, is_training=True, seed=1)
    assert not {image.tobytes() for image in other} & {image.tobytes() for image in values}


@pytest.mark.parametrize("name", KINDS)
def test_in_evaluation_nothing_is_random(prepared, photos, name):
    values = prepared(name, photos[:3], 24, 32)
    np.testing.assert_array_equal(values[1:], values[:-1])


@pytest.mark.parametrize("name", RANDOM)
def test_training_needs_a_seed(graph, name):
    preprocess = factory.get_preprocessing(name, is_training=True)
    with pytest.raises(ValueError, match="without a seed"):
        preprocess(tf.zeros([8, 8, 3]), 8, 8)


def test_as_float_keeps_values_and_channels(graph, evaluate):
    image = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    value = evaluate(pixels.as_float(tf.constant(image), use_grayscale=False))
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, image)


def test_as_float_makes_gray_of_colours(graph, evaluate):
    image = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    gray = pixels.as_float(tf.constant(image), use_grayscale=True)
    again = pixels.as_float(gray, use_grayscale=True)
    values = evaluate([gray, again, tf.image.rgb_to_grayscale(tf.cast(image, tf.float32))])
    np.testing.assert_allclose(values[0][..., 0], image @ [0.299, 0.587, 0.114], rtol=1e-5)
    np.testing.assert_array_equal(values[1], values[0])
    np.testing.assert_allclose(values[2], values[0], rtol=1e-3)


@pytest.mark.parametrize("shape", [None, [4, 4], [4, 4, 4], [4, 4, None], [1, 4, 4, 3]])
def test_non_image_is_refused(graph, shape):
    with pytest.raises(ValueError, match=r"must be \[height, width, channels\] with 1 or 3"):
        pixels.as_float(v1.placeholder(tf.uint8, shape), use_grayscale=False)


def test_seeds_differ_and_depend_on_the_seed(graph, evaluate):
    one, same, other = evaluate(
        [pixels.seeds(tf.constant([1, number], tf.int64), 3) for number in (2, 2, 3)]
    )
    np.testing.assert_array_equal(one, same)
    assert len({tuple(seed) for seed in (*one, *other)}) == 6


def test_no_seed_is_refused():
    with pytest.raises(ValueError, match="for training without a seed: pass seed, two whole"):
        pixels.seeds(None, 3)


def test_resized_to_the_same_size_changes_nothing(graph, evaluate):
    image = np.random.RandomState(0).randn(6, 7, 3).astype(np.float32)
    same, half = evaluate(
        [pixels.resized(tf.constant(image), 6, 7), pixels.resized(tf.ones([6, 7, 3]), 3, 4)]
    )
    np.testing.assert_allclose(same, image, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(half, np.ones([3, 4, 3]), rtol=1e-5)
