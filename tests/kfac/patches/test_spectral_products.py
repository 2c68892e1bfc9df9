import numpy as np
import pytest
import tensorflow as tf

from kfac.patches import row_products, spectral_products
from kfac.patches.filter_axis import FilterAxis

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
