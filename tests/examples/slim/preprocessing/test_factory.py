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
    kinds = dict(zip(KINDS, KINDS, strict=True)) | {
        name: {"mobilenet": "inception", "resnet": "vgg"}.get(family, family)
        for name in NETWORKS
        for family in [name.partition("_")[0]]
    }
    found = factory.PREPROCESSING
    assert found == {name: found[kind] for name, kind in kinds.items()}
    assert len(set(found.values())) == len(KINDS)
    message = r"no preprocessing 'alexnet'; take one of cifarnet, .*vgg_16\."
    with pytest.raises(ValueError, match=message):
        factory.get_preprocessing("alexnet")


@pytest.mark.parametrize("name", KINDS)
def test_images_of_any_size_and_type_get_the_size(prepared, photos, name):
    colours = prepared(name, photos[:3], 24, 32)
    assert (colours.shape, colours.dtype) == ((3, 24, 32, 3), np.float32)
    np.testing.assert_array_equal(colours[1:], colours[:-1], "nothing is random")
    digit = np.arange(64, dtype=np.float32).reshape(8, 8, 1)
    digits = prepared(name, [digit] * 2, 24, 32, is_training=True)
    assert digits.shape == (2, 24, 32, 1)
    for images in (colours, digits):
        assert np.isfinite(images).all()
        assert images.std() > 0


@pytest.mark.parametrize("name", RANDOM)
def test_in_training_each_image_differs_and_the_seed_decides(prepared, photos, graph, name):
    values = prepared(name, photos, 24, 32, is_training=True)
    assert len({image.tobytes() for image in values}) == len(photos)
    again = prepared(name, photos[:2], 24, 32, is_training=True)
    np.testing.assert_array_equal(again, values[:2])
    other = prepared(name, photos[:2], 24, 32, is_training=True, seed=1)
    assert not {image.tobytes() for image in other} & {image.tobytes() for image in values}
    with pytest.raises(ValueError, match="without a seed"):
        factory.get_preprocessing(name, is_training=True)(tf.zeros([8, 8, 3]), 8, 8)


def test_colours_become_floats_or_gray(graph, evaluate):
    image = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    value = pixels.as_float(tf.constant(image), use_grayscale=False)
    gray = pixels.as_float(tf.constant(image), use_grayscale=True)
    again = pixels.as_float(gray, use_grayscale=True)
    values = evaluate([value, gray, again])
    assert values[0].dtype == np.float32
    np.testing.assert_array_equal(values[0], image)
    np.testing.assert_allclose(values[1][..., 0], image @ [0.299, 0.587, 0.114], rtol=1e-5)
    np.testing.assert_array_equal(values[2], values[1])
    for shape in (None, [4, 4], [4, 4, 4], [4, 4, None], [1, 4, 4, 3]):
        with pytest.raises(ValueError, match=r"must be \[height, width, channels\] with 1 or 3"):
            pixels.as_float(v1.placeholder(tf.uint8, shape), use_grayscale=False)
