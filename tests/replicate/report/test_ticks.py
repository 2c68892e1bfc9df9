import numpy as np
import pytest

from replicate.report.ticks import linear_ticks, log_ticks, short


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.81, 1.0, [0.85, 0.9, 0.95, 1]),
        (-3e38, 3e38, [-2e38, 0, 2e38]),
        (-7.0, 12.0, [-5, 0, 5, 10]),
    ],
)
def test_linear_ticks_are_round(low, high, ticks):
    np.testing.assert_allclose(linear_ticks(low, high, 5), ticks, atol=1e-12)


def test_ticks_of_steps_are_whole():
    assert linear_ticks(1, 3, 5, whole=True) == [1, 2, 3]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.02, 30.0, [0.1, 1, 10]),
        (1e-10, 1.0, [1e-10, 1e-7, 1e-4, 1e-1]),
        (0.015, 0.06, [0.02, 0.05]),
        (0.021, 0.024, [0.021, 0.0215, 0.022, 0.0225, 0.023, 0.0235, 0.024]),
    ],
)
def test_log_ticks_are_powers_of_ten_if_there_are_enough(low, high, ticks):
    np.testing.assert_allclose(log_ticks(low, high, 5 if low != 0.021 else 6), ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (1500, "1.5k"), (2e6, "2M"), (-5e9, "-5G"), (1e-5, "1e-05"), (3e38, "3e+38")],
)
def test_short_text_of_a_number(value, text):
    assert short(value) == text
