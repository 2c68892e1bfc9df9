import dataclasses

import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig


def test_is_a_frozen_hashable_value():
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
def test_bad_values(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CurvatureConfig(**kwargs)
