"""The problem of the digits: what it says of itself, and its batches."""

import pytest
import tensorflow as tf

from examples.slim.datasets.dataset import Reading
from examples.slim.image_classifier import problem

pytest.importorskip("sklearn")
v1 = tf.compat.v1


def pose(image_size=None, is_training=True, **changes):
    flags = {
        "dataset_name": "digits",
        "dataset_split_name": "train",
        "dataset_dir": None,
        "labels_offset": 0,
        "model_name": "lenet",
        "preprocessing_name": None,
        "use_grayscale": False,
        "num_preprocessing_threads": 2,
    }
    return problem.pose(problem.ProblemFlags(**{**flags, **changes}), image_size, is_training)


def test_image_size_defaults_to_that_of_the_network(graph, evaluate):
    assert str(pose()) == "digits train: 1,437 images, 10 classes, for lenet as 28x28"
    assert pose(image_size=40).image_size == 40
    assert pose(model_name="cifarnet").image_size == 32
    posed = pose(is_training=False, dataset_split_name="test")
    images, labels = v1.data.make_one_shot_iterator(
        posed.batches(Reading(training=False), 8)
    ).get_next()
    assert images.shape.as_list() == [None, 28, 28, 1]
    found = evaluate([images, labels])
    assert found[0].shape == (8, 28, 28, 1)
    assert len(set(found[1])) > 3
