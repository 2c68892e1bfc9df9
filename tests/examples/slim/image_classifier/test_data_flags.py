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


@pytest.mark.parametrize(
    ("define", "good", "wrong", "message"),
    [
        ({"default": 1.5, "above": True}, 0.1, -1, "a number above 0"),
        ({"default": 1.5, "above": True}, 0.1, 0, "a number above 0"),
        ({"default": 1.5, "above": True}, 0.1, float("nan"), "a number above 0"),
        ({"default": 1.5, "above": True}, 0.1, float("inf"), "a number above 0"),
        ({"default": 1.5, "above": True}, 0.1, None, "a number above 0"),
        ({"default": None, "least": 2}, 2, 1.9, "a number of at least 2"),
    ],
)
def test_number_has_a_limit(define, good, wrong, message):
    data_flags.define_number("mine", define.pop("default"), "", **define)
    FLAGS.mine = good
    with pytest.raises(flags.IllegalFlagValueError, match=f"must be {message}"):
        FLAGS.mine = wrong


@pytest.mark.parametrize(("default", "other"), [(-1, 5), (False, True), ("", "grpc://a:1")])
def test_removed_flag_accepts_only_its_default(default, other):
    data_flags.define_gone("mine", default, "It has gone.")
    FLAGS.mine = default
    with pytest.raises(flags.IllegalFlagValueError, match=f"must be {default!r}. It has gone."):
        FLAGS.mine = other


def test_read():
    @dataclasses.dataclass
    class Mine:
        batch_size: int
        model_name: str

    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    assert data_flags.read(Mine) == Mine(7, "inception_v3")
    assert FLAGS.dataset_split_name == "test"
    assert FLAGS["batch_size"].help.startswith("Images that are looked at.")


def test_decay_of_averages():
    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    FLAGS.moving_average_decay = 0.0
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(flags.IllegalFlagValueError, match="at least 0 and below 1"):
            FLAGS.moving_average_decay = wrong
