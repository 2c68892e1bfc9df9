"""Absent names can be named, derived from and asked for; they fail when used."""

import pytest

from replicate.compat.absent import OldNameError, absent, is_absent

Gone = absent("tf.contrib.parts.Gone", "Use another.")


class Derived(Gone):
    """A class of a program."""


@pytest.mark.parametrize("use", [Gone, Derived, Gone.make, lambda: Gone.deep.deeper(1, a=2)])
def test_use_fails_with_the_name_the_line_and_the_advice(use):
    with pytest.raises(
        OldNameError, match=r"^tf\.contrib\.parts\.Gone.*test_absent\.py:\d+.*other"
    ):
        use()


def test_nothing_is_an_instance():
    assert not isinstance(3, Gone)
    assert is_absent(Gone.part)
    assert not is_absent(3)


def test_special_attributes_are_missing():
    assert not hasattr(Gone, "__path__")
