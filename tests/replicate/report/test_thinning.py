import math

import numpy as np

from replicate.report.curves import Curve
from replicate.report.thinning import MOST_POINTS, thinned


def test_short_curves_stay():
    curve = Curve(tuple(range(MOST_POINTS)), (0.5,) * MOST_POINTS)
    assert thinned(curve) is curve


def test_long_curves_keep_lows_highs_and_ends():
    values = np.random.RandomState(0).randn(12345)
    values[[777, 7777]] = 99.0, -99.0
    curve = Curve(tuple(range(12345)), tuple(values))
    steps, found = thinned(curve)
    assert len(steps) <= MOST_POINTS
    assert list(steps) == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 12344)
    assert (found[steps.index(777)], found[steps.index(7777)]) == (99.0, -99.0)
    assert all(values[step] == value for step, value in zip(steps, found, strict=True))


def test_a_long_gap_stays_a_gap():
    values = [1.0] * 1000
    values[300:600] = [math.nan] * 300
    steps, found = thinned(Curve(tuple(range(1000)), tuple(values)), 100)
    inside = [value for step, value in zip(steps, found, strict=True) if 310 <= step < 590]
    assert inside
    assert all(map(math.isnan, inside))
