import numpy as np
import pytest

from kfac.patches.filter_axis import FilterAxis
from kfac.patches.spectral_groups import borders, frequencies, shifts, waves

SAME5 = FilterAxis(14, 5, 2, 14)


def groups_of(axis):
    return waves(axis).joined(borders(axis))


@pytest.mark.parametrize(
    "axis",
    [
        SAME5,
        FilterAxis(14, 5, 0, 10),
        FilterAxis(9, 4, 1, 9),
        FilterAxis(7, 3, 1, 7),
        FilterAxis(8, 7, 3, 8),
        FilterAxis(5, 2, 0, 5),
        FilterAxis(6, 1, 0, 6),
        FilterAxis(3, 5, 2, 3),
        FilterAxis(2, 5, 2, 2),
        FilterAxis(1, 1, 0, 1),
    ],
)
def test_products_of_transforms_equal_products_of_pixels(axis):
    members, weights = groups_of(axis)
    found = np.einsum("ijgab,gav,gbw->ijvw", weights, members, members)
    expected = np.zeros_like(found)
    for i, j, location in np.ndindex(axis.kernel, axis.kernel, axis.out):
        pixels = np.array([i, j]) + location - axis.before
        if ((pixels >= 0) & (pixels < axis.size)).all():
            expected[i, j, pixels[0], pixels[1]] = 1
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_groups_are_few():
    # 18 = 14 + 5 − 1 frequencies by two, and two pixels at each border.
    assert len(groups_of(SAME5).members) == 9 + 2


def test_period_is_even_and_holds_image_and_filter():
    np.testing.assert_allclose(frequencies(FilterAxis(2, 2, 0, 1)), [np.pi / 4, 3 * np.pi / 4])
    assert len(frequencies(SAME5)) * 2 == 14 + 5 - 1


def test_shifts():
    np.testing.assert_array_equal(shifts(FilterAxis(3, 2, 0, 2)), [[0, 1], [-1, 0]])
