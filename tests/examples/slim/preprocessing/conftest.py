"""Images that go through a `tf.data` pipeline, as in a program."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.preprocessing import factory

v1 = tf.compat.v1


def _prepared(name, images, height, width, seed=0, **options):
    """Returns what becomes of each image of a list; sizes are unknown to the pipeline."""
    preprocess = factory.get_preprocessing(name, **options)
    channels = images[0].shape[-1]

    def prepare(number, image):
        return preprocess(image, height, width, seed=tf.stack([seed, number]))

    with tf.Graph().as_default(), v1.Session() as session:
        spec = tf.TensorSpec([None, None, channels], images[0].dtype)
        dataset = tf.data.Dataset.from_generator(lambda: iter(images), output_signature=spec)
        dataset = dataset.enumerate().map(prepare)
        made = dataset.element_spec
        assert made.dtype == tf.float32
        assert made.shape.as_list() == [
            height,
            width,
            1 if options.get("use_grayscale") else channels,
        ]
        batch = v1.data.make_one_shot_iterator(dataset.batch(len(images))).get_next()
        return session.run(batch)


@pytest.fixture
def prepared():
    """A function that prepares images; see `_prepared`."""
    return _prepared


@pytest.fixture
def photos():
    """Twelve smooth images of 60 x 80 pixels in colours, one like the other."""
    across, down = np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 60))
    photo = np.stack([255 * across, 255 * down, 128 * across * down + 40], axis=-1)
    return [photo.astype(np.uint8)] * 12
