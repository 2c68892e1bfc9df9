"""Differences of values: rounding, NaN and infinity, strings, kinds."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.comparison.differences import Difference, differences


@pytest.mark.parametrize(
    ("one", "many", "absolute", "relative"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5, 0.25),
        ([0.0], [1.0], 1.0, np.inf),
        ([np.nan, 4.0], [np.nan, 5.0], 1.0, 0.25),
        ([np.nan], [np.nan], 0.0, 0.0),
        ([np.inf, 4.0], [np.inf, 5.0], 1.0, 0.25),
        ([np.inf], [-np.inf], np.inf, np.inf),
        ([1.0], [np.inf], np.inf, np.inf),
        ([0.0], [0.0], 0.0, 0.0),
        ([], [], 0.0, 0.0),
        (np.array([200], np.uint8), np.array([201], np.uint8), 1.0, 0.005),
        ([True, False], [True, True], 1.0, 1.0),
        ([4j], [3j], 1.0, 0.25),
        (np.array([b"a"], object), np.array([b"a"], object), 0.0, 0.0),
        (np.array([b"a"], object), np.array([b"b"], object), np.inf, np.inf),
        (np.array(2.0, tf.bfloat16.as_numpy_dtype), np.array(1.0), 1.0, 0.5),
    ],
)
def test_differences_of_values(one, many, absolute, relative):
    [found] = differences({"v": one}, {"v": many}, str, 2)
    assert found == Difference("v", absolute, relative)


@pytest.mark.parametrize(
    ("one", "many", "told"),
    [
        ([1.0, 2.0], [1.0, np.nan], "NaN only on 2 towers"),
        ([np.nan, 2.0], [1.0, 2.0], "NaN only on 1 tower"),
        ([np.nan, 2.0], [1.0, np.nan], "NaN only on 1 tower, NaN only on 2 towers"),
        (np.complex64(1.0), np.complex64(complex(0.0, np.nan)), "NaN only on 2 towers"),
    ],
)
def test_nan_in_one_model_is_an_infinite_difference_and_reported(one, many, told):
    [found] = differences({"v": one}, {"v": many}, str, 2)
    assert found == Difference("v", np.inf, np.inf, told)


def test_nan_and_infinity_do_not_hide_differences_of_the_same_kind():
    one, many = {"a": [np.nan], "b": [np.inf], "c": [4.0]}, {"a": [np.nan], "b": [1.0], "c": [5.0]}
    found = differences(one, many, lambda _: "kind", 2)
    assert [difference.relative for difference in found] == [0.0, np.inf, 0.25]


@pytest.mark.parametrize(
    ("difference", "line"),
    [
        (Difference("w", 0.5, 0.25), "w     5.0e-01   2.5e-01"),
        (
            Difference("w", np.inf, np.inf, "NaN only on 1 tower"),
            "w         inf       inf  NaN only on 1 tower",
        ),
    ],
)
def test_line_of_a_report(difference, line):
    assert difference.line(3) == line
