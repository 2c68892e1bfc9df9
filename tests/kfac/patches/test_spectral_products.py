"""Products of spectra: groups of frequencies, and their cost."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.patches import row_products, spectral_products
from kfac.patches.cost import PRODUCT_COST, WRITE_COST, CostEstimate
from kfac.patches.filter_axis import FilterAxis
from kfac.patches.spectral_groups import borders, frequencies, shifts, waves

v1 = tf.compat.v1

SAME5 = FilterAxis(14, 5, 2, 14)


@pytest.mark.parametrize("rows", [FilterAxis(5, 3, 1, 5), FilterAxis(6, 3, 0, 4)])
@pytest.mark.parametrize("columns", [FilterAxis(7, 5, 2, 7), FilterAxis(1, 1, 0, 1)])
def test_equal_to_products_of_rows(graph, session, rows, columns):
    images = np.random.RandomState(0).randn(3, rows.size, columns.size, 2)
    x = v1.placeholder(tf.float64, [None, *images.shape[1:]])
    ways = [way.blocks(x, rows, columns) for way in (spectral_products, row_products)]
    found, expected = session.run(ways, {x: images})
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_single_precision(graph, session):
    images = np.maximum(np.random.RandomState(0).randn(64, 14, 14, 4), 0).astype("f4")
    ways = [
        way.blocks(tf.constant(images, dtype), SAME5, SAME5)
        for way, dtype in ((spectral_products, tf.float32), (row_products, tf.float64))
    ]
    found, expected = session.run(ways)
    assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize(("channels", "is_cheaper"), [(1, False), (16, True)])
def test_estimated_cost(channels, is_cheaper):
    ours, theirs = (
        way.estimate_cost(SAME5, SAME5, channels, 256) for way in (spectral_products, row_products)
    )
    assert (ours.cost < theirs.cost) == is_cheaper


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


def test_cost_adds_up_operations():
    assert CostEstimate().cost == 0
    expected = 5 + 7 * WRITE_COST + 2 * PRODUCT_COST
    assert CostEstimate(multiplications=5, written=7, products=2).cost == expected
