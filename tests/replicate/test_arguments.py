"""Checks of arguments."""

from typing import Literal

import pytest

from replicate.arguments import check_choice

Fruit = Literal["apple", "pear"]


def test_a_choice_passes():
    check_choice("fruit", "pear", Fruit)


@pytest.mark.parametrize("value", ["plum", None, 3])
def test_other_value_is_refused_with_the_choices(value):
    with pytest.raises(
        ValueError, match=rf"^fruit must be one of 'apple', 'pear'; got {value!r}\.$"
    ):
        check_choice("fruit", value, Fruit)
