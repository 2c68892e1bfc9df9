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


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 0, None])
def test_number_above(wrong):
    data_flags.define_number("mine", 1.5, "", above=True)
    assert FLAGS.mine == 1.5
    FLAGS.mine = 0.1
    with pytest.raises(flags.IllegalFlagValueError, match="must be a number above 0"):
        FLAGS.mine = wrong


def test_number_at_least():
    data_flags.define_number("mine", None, "", least=2)
    FLAGS.mine = 2
    FLAGS.mine = None
    with pytest.raises(flags.IllegalFlagValueError, match="must be a number of at least 2"):
        FLAGS.mine = 1.9


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


@pytest.mark.parametrize("wrong", [-0.1, 1.0, float("nan")])
def test_decay_of_averages(wrong):
    data_flags.define(split_name="test", batch_size=7, progress_of="are looked at")
    FLAGS.moving_average_decay = 0.0
    with pytest.raises(flags.IllegalFlagValueError, match="at least 0 and below 1"):
        FLAGS.moving_average_decay = wrong
