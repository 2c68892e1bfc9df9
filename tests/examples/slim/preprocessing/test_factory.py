"""Properties of every kind of preprocessing: names, shapes, types, draws by seed."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks.factory import NETWORKS
from examples.slim.preprocessing import factory

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
