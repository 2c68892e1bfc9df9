"""Checks of settings and arguments."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from kfac import arguments
from kfac.config import CurvatureConfig


def test_config_is_a_frozen_hashable_value():
    config = CurvatureConfig(factor_dtype=tf.float64)
    assert config == CurvatureConfig(factor_dtype=tf.float64)
    assert hash(config) == hash(CurvatureConfig(factor_dtype=tf.float64))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.eigen_threshold = 3


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"eigen_threshold": 0}, "eigen_threshold=0. It must be a number of inverses"),
        ({"patches_per_dimension": 0}, "patches_per_dimension=0"),
        ({"max_patches": 1.5}, "max_patches=1.5. It must be a number of patches"),
        ({"damping_power": -1}, "damping_power=-1. It must be >= 0"),
        ({"input_fraction": 0.0}, r"input_fraction=0.0. It must be in \(0, 1\]"),
        ({"sub_sample_inputs": 0.2}, "sub_sample_inputs=0.2. Accepted are True, False"),
        ({"sub_sample_patches": None}, "sub_sample_patches=None. Accepted are True, False"),
        ({"conv_moment": "fast"}, "conv_moment='fast'. Accepted are 'auto', 'patches'"),
        ({"inverse_method": "svd"}, "inverse_method='svd'. Accepted are 'auto', 'cholesky', 'eigh"),
        ({"factor_dtype": tf.int32}, "factor_dtype=.*int32.*floating-point"),
        ({"inverse_dtype": tf.int64}, "inverse_dtype=.*int64.*floating-point"),
    ],
)
def test_bad_values_of_the_config(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CurvatureConfig(**kwargs)


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


def test_excluded_argument():
    arguments.check_excluded("momentum", None, "'qmodel'", "pass None")
    with pytest.raises(ValueError, match=r"momentum=0.9 does not go with 'qmodel'.*pass None"):
        arguments.check_excluded("momentum", 0.9, "'qmodel'", "pass None")
