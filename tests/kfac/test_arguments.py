import numpy as np
import pytest
import tensorflow as tf

from kfac import arguments


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), np.float32(-2)])
def test_number_out_of_range(value):
    with pytest.raises(ValueError, match=r"Cannot set up K-FAC: damping=.*must be > 0"):
        arguments.check_number("damping", value, "> 0", lambda x: x > 0)


def test_number_in_range_none_and_tensors_pass(graph):
    for value in (1, 0.5, np.float64(2), None, tf.constant(-1.0)):
        arguments.check_number("damping", value, "> 0", lambda x: x > 0)


def test_choice():
    arguments.check_choice("mode", "a", ("a", "b"))
    with pytest.raises(ValueError, match=r"mode='c'. Accepted are 'a', 'b'"):
        arguments.check_choice("mode", "c", ("a", "b"))


@pytest.mark.parametrize("value", [0, -3, 1.5, True, "2", None])
def test_period(value):
    with pytest.raises(ValueError, match=r"invert_every=.*an int of at least 1"):
        arguments.check_period("invert_every", value)


def test_period_accepts_positive_ints():
    arguments.check_period("invert_every", 1)


def test_excluded():
    arguments.check_excluded("momentum", None, "'qmodel'", "pass None")
    with pytest.raises(ValueError, match=r"momentum=0.9 does not go with 'qmodel'.*pass None"):
        arguments.check_excluded("momentum", 0.9, "'qmodel'", "pass None")
