import math

import pytest

from replicate.report.curves import Curve
from replicate.report.panels import BATCH, Panel
from replicate.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, plot


def test_curves_fill_the_frame():
    shown = plot(Panel("loss", {"a": Curve((0, 5, 10), (0.0, 1.0, 2.0))}))
    (series,) = shown.series
    x, y = [x for x, _, _ in series.markers], [y for _, y, _ in series.markers]
    assert x == [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    assert y[1] == (TOP + HEIGHT - BOTTOM) / 2
    assert TOP < y[2] < y[0] < HEIGHT - BOTTOM
    assert series.path == f"M{x[0]:g} {y[0]:g}h0L{x[1]:g} {y[1]:g}L{x[2]:g} {y[2]:g}"
    assert [tick.text for tick in shown.y_ticks] == ["0", "0.5", "1", "1.5", "2"]
    assert [tick.text for tick in shown.x_ticks] == ["0", "2", "4", "6", "8", "10"]
    assert series.markers[1][2] == "a: 1 at step 5"
    assert (series.last, shown.notes) == ("2", [])


def test_decades_have_equal_distances_on_a_logarithmic_scale():
    shown = plot(Panel("loss", {"a": Curve((0, 1, 2), (1.0, 0.1, 0.01))}, True))
    first, second, third = (y for _, y, _ in shown.series[0].markers)
    assert third - second == pytest.approx(second - first, abs=0.11)
    assert [tick.text for tick in shown.y_ticks] == ["0.01", "0.1", "1"]


def test_values_that_are_not_finite_are_gaps_and_counted():
    values = (1.0, math.nan, math.inf, 2.0)
    shown = plot(Panel("x", {"a": Curve((1, 2, 3, 4), values)}))
    assert shown.series[0].path.count("M") == 2
    assert len(shown.series[0].markers) == 2
    assert shown.notes == ["2 of 4 values are not finite."]


def test_zero_has_no_place_on_a_logarithmic_scale():
    shown = plot(Panel("x", {"a": Curve((1, 2), (0.0, 2.0))}, True))
    assert shown.notes == ["1 values are not above 0 and have no place on this scale."]
    assert len(shown.series[0].markers) == 1
    linear = plot(Panel("x", {"a": Curve((1, 2), (0.0, -2.0))}, True))
    assert len(linear.series[0].markers) == 2


@pytest.mark.parametrize("values", [(), (math.nan,)])
def test_nothing_to_draw(values):
    assert plot(Panel("x", {"a": Curve((1,) * len(values), values)}, True)).is_empty


@pytest.mark.parametrize("value", [0.0, 5.0, -3e38])
def test_a_single_value_lies_in_the_middle(value):
    ((x, y, _),) = plot(Panel("x", {"a": Curve((7,), (value,))})).series[0].markers
    assert (x, y) == ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)


def test_long_curves_are_thinned_and_have_no_markers():
    shown = plot(Panel("x", {"a": Curve(tuple(range(5000)), (1.0, 2.0) * 2500)}))
    assert shown.series[0].path.count("L") < 400
    assert shown.series[0].markers == []
    assert shown.notes == ["Only lows and highs of 5,000 values are drawn."]


def test_an_evaluation_has_its_colour_with_and_without_training():
    curve = Curve((1,), (1.0,))
    names = [BATCH, *(f"run{i}" for i in range(9))]
    styles = [s.style for s in plot(Panel("x", dict.fromkeys(names, curve))).series]
    assert (styles[0], styles[1], styles[7], styles[8]) == ("batch", "s0 d0", "s6 d0", "s0 d1")
    many = plot(Panel("x", {str(i): curve for i in range(30)}))
    assert len(many.series) == 21
    assert many.notes == ["9 more curves are not drawn."]
