"""The problem of the digits, and limits of flags."""

import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from examples.slim.datasets.dataset import Reading
from examples.slim.image_classifier import data_flags, problem

pytest.importorskip("sklearn")
v1 = tf.compat.v1


def pose(image_size=None, is_training=True, **changes):
    settings = {
        "dataset_name": "digits",
        "dataset_split_name": "train",
        "dataset_dir": None,
        "labels_offset": 0,
        "model_name": "lenet",
        "preprocessing_name": None,
        "use_grayscale": False,
        "num_preprocessing_threads": 2,
    }
    return problem.pose(problem.ProblemFlags(**{**settings, **changes}), image_size, is_training)


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


@flagsaver.flagsaver
def test_flags_have_limits():
    found = flags.FLAGS
    found.mark_as_parsed()
    data_flags.define_number("rate", 1.5, "", above=True)
    data_flags.define_number("clones", None, "", least=2)
    data_flags.define_gone("gone", False, "It has gone.")
    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    found.rate, found.clones, found.gone, found.moving_average_decay = 0.1, 2, False, 0.0
    for name, wrongs, message in (
        ("rate", (-1, 0, float("nan"), float("inf"), None), "a number above 0"),
        ("clones", (1.9,), "a number of at least 2"),
        ("gone", (True,), "False. It has gone."),
        ("moving_average_decay", (-0.1, 1.0, float("nan")), "at least 0 and below 1"),
    ):
        for wrong in wrongs:
            with pytest.raises(flags.IllegalFlagValueError, match=f"must be .*{message}"):
                setattr(found, name, wrong)
