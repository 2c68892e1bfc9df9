"""Batches made of a dataset: sizes, order, seeds of the images, labels."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets.arrays import array_dataset
from examples.slim.datasets.dataset import Reading
from examples.slim.image_classifier import input_pipeline
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
IMAGES = np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1) * np.ones([1, 3, 3, 1], np.uint8)
LABELS = np.arange(5) + 1


def noisy(image, height, width, seed):
    """A preprocessing that draws random numbers."""
    noise = tf.random.stateless_uniform([height, width, 1], seed)
    return tf.image.resize(tf.cast(image, tf.float32), [height, width]) + noise / 2


def batches(count, training=True, threads=1, seed=3, **settings):
    dataset = array_dataset("mine", "train", IMAGES, LABELS, 6, {"image": "", "label": ""})
    with tf.Graph().as_default(), v1.Session() as session:
        made = input_pipeline.input_fn(
            dataset,
            Reading(training=training, seed=seed),
            noisy,
            image_size=2,
            batch_size=2,
            num_threads=threads,
            **settings,
        )
        following = v1.data.make_one_shot_iterator(made).get_next()
        return following, [session.run(following) for _ in range(count)]


def test_training_batches_are_full_and_differ_in_each_epoch():
    (images, labels), found = batches(5)
    assert images.shape.as_list() == [2, 2, 2, 1]
    assert (images.dtype, labels.dtype) == (tf.float32, tf.int64)
    assert labels.shape.as_list() == [2]
    order = np.concatenate([labels for _, labels in found])
    assert sorted(order[:5]) == sorted(order[5:]) == list(range(1, 6))
    pixels = np.concatenate([images for images, _ in found])
    np.testing.assert_array_equal(np.floor(pixels[:, 0, 0, 0]), order - 1)
    noise = pixels - np.floor(pixels)
    assert len({round(float(value), 6) for value in noise[:, 0, 0, 0]}) == 10
    # The seed decides, whatever the threads.
    for seed, is_same in ((3, True), (4, False)):
        _, again = batches(5, threads=4, seed=seed)
        assert np.array_equal(np.concatenate([images for images, _ in again]), pixels) == is_same


def test_evaluation_takes_everything_once_in_order():
    _, found = batches(3, training=False, labels_offset=1)
    assert [labels.tolist() for _, labels in found] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match=r"^Found a label 1, expected 2 to 5: look"), user_errors():
        batches(1, training=False, labels_offset=2)
