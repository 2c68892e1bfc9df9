"""Flags for numbers, flags that have gone, and flags read into a dataclass."""

import dataclasses

import pytest
from absl import flags
from absl.testing import flagsaver

from examples.slim.image_classifier import data_flags

FLAGS = flags.FLAGS


@pytest.fixture(autouse=True)
def keep_flags():
    with flagsaver.flagsaver():
        FLAGS.mark_as_parsed()
        yield


def test_flags_have_limits():
    data_flags.define_number("rate", 1.5, "", above=True)
    data_flags.define_number("clones", None, "", least=2)
    data_flags.define_gone("gone", False, "It has gone.")
    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    FLAGS.rate, FLAGS.clones, FLAGS.gone, FLAGS.moving_average_decay = 0.1, 2, False, 0.0
    for name, wrongs, message in (
        ("rate", (-1, 0, float("nan"), float("inf"), None), "a number above 0"),
        ("clones", (1.9,), "a number of at least 2"),
        ("gone", (True,), "False. It has gone."),
        ("moving_average_decay", (-0.1, 1.0, float("nan")), "at least 0 and below 1"),
    ):
        for wrong in wrongs:
            with pytest.raises(flags.IllegalFlagValueError, match=f"must be .*{message}"):
                setattr(FLAGS, name, wrong)


def test_read():
    @dataclasses.dataclass
    class Mine:
        batch_size: int
        model_name: str

    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    assert data_flags.read(Mine) == Mine(7, "inception_v3")
    assert FLAGS.dataset_split_name == "test"
    assert FLAGS["batch_size"].help.startswith("Images that are looked at.")
