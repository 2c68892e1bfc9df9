"""A flag is named if it was given and something that it needs is missing, and only then."""

import pytest
from absl import flags
from absl.testing import flagsaver

from examples import unused_flags


@pytest.fixture
def defined():
    with flagsaver.flagsaver():
        flags.DEFINE_float("damping", 0.1, "A number.")
        flags.DEFINE_bool("automatic", False, "A switch.")
        yield flags.FLAGS


def found(**changes):
    need = {"needs": "--optimizer=kfac", "met": False, **changes}
    return unused_flags.without_effect(["damping", "automatic"], **need)


def test_flags_that_were_not_given_are_never_wrong(defined):
    defined(["program"])
    assert found() == []
    unused_flags.refuse(found(), found())


def test_given_flags_are_wrong_if_they_need_what_is_not_there(defined):
    defined(["program", "--damping=0.1", "--noautomatic"])
    assert found() == [
        "--damping=0.1 has no effect without --optimizer=kfac",
        "--noautomatic has no effect without --optimizer=kfac",
    ]
    assert found(met=True) == []


def test_refuse_names_all_that_is_wrong_and_what_to_do(defined):
    defined(["program", "--damping=2"])
    expected = "--damping=2.0 has no effect without kfac; --x has no effect without y: leave out"
    with pytest.raises(ValueError, match=expected):
        unused_flags.refuse(found(needs="kfac"), [], ["--x has no effect without y"])
