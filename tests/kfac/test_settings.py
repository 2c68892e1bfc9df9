"""Checks of settings and arguments, and numbers that follow a schedule."""

import pytest
import tensorflow as tf

from kfac import schedules
from kfac.config import CurvatureConfig

v1 = tf.compat.v1


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


def test_numbers_tensors_and_variables_are_returned_as_they_are(graph):
    for value in (0.1, None, tf.constant(0.1), v1.get_variable("rate", [])):
        assert schedules.called_once(value) is value
        assert schedules.current(value) is value


def test_function_is_called_at_first_use_and_once_also_in_a_branch(graph, session):
    calls = []

    def schedule():
        calls.append(1)
        return tf.constant(0.5)

    rate = schedules.called_once(schedule)
    assert calls == []
    condition = v1.placeholder_with_default(True, [])
    inside = tf.cond(condition, lambda: 2 * schedules.current(rate), lambda: 0.0)
    assert session.run([inside, schedules.current(rate)]) == [1.0, 0.5]
    assert schedules.current(rate) is schedules.current(rate)
    assert calls == [1]


@pytest.mark.parametrize("period", [3, lambda: tf.constant(3)])
def test_what_is_done_every_so_many_steps(graph, session, period):
    step = v1.placeholder(tf.int64, [])
    due = schedules.is_due(step, period)
    assert [n for n in range(7) if session.run(due, {step: n})] == [0, 3, 6]


def test_what_is_done_in_every_step(graph, session):
    step = v1.placeholder(tf.int64, [])
    assert schedules.is_due(step, 1) is True
    assert session.run(schedules.is_due(step, tf.constant(0)), {step: 5})


def test_decay_per_update(graph, session):
    assert schedules.decay_per_update(0.5, 3) == 0.125
    decay = tf.constant(0.5, tf.float64)
    assert schedules.decay_per_update(decay, 1) is decay
    assert session.run(schedules.current(schedules.decay_per_update(decay, 3))) == 0.125
