import numpy as np
import pytest
import tensorflow as tf

from kfac.patches import cost, row_products
from kfac.patches.filter_axis import FilterAxis, entry_pairs

v1 = tf.compat.v1


def same(size, kernel):
    return FilterAxis(size, kernel, (kernel - 1) // 2, size)


def reference(images, rows, columns):
    """Blocks [pairs, c, c, kw, kw], location by location."""
    after = [axis.kernel - axis.before for axis in (rows, columns)]
    margins = [(0, 0), (rows.before, after[0]), (columns.before, after[1]), (0, 0)]
    padded = np.pad(images, margins)

    def seen(i, j):
        return padded[:, i : i + rows.out, j : j + columns.out]

    entries = range(columns.kernel)
    return np.array(
        [
            [[np.einsum("nhwc,nhwd->cd", seen(i, j), seen(k, m)) for m in entries] for j in entries]
            for i, k in entry_pairs(rows.kernel)
        ]
    ).transpose(0, 3, 4, 1, 2)


@pytest.mark.parametrize(("columns", "kernel"), [(40, 3), (29, 5), (24, 1)])
def test_wide_images_are_cut_into_tiles(graph, session, monkeypatch, columns, kernel):
    monkeypatch.setattr(cost, "PRODUCT_COST", 0.0)  # as if the batch were large
    images = np.random.RandomState(0).randn(2, 4, columns, 8)
    axes = same(4, 2), same(columns, kernel)
    x = v1.placeholder(tf.float64, [None, 4, columns, 8])
    blocks = row_products.blocks(x, *axes)
    products = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul"]
    assert max(product.shape.num_elements() for product in products) < (columns * 8) ** 2
    expected = reference(images, *axes)
    found = session.run(blocks, {x: images}).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_cost_grows_with_the_batch_and_the_channels():
    axis = same(9, 3)
    one = row_products.estimate_cost(axis, axis, 2, 64)
    assert row_products.estimate_cost(axis, axis, 2, 128).cost > one.cost
    # With as many tiles and pieces, four times the products of entries.
    many = row_products.estimate_cost(axis, axis, 4, 64)
    assert many.multiplications / one.multiplications == pytest.approx(4, rel=0.5)


def test_sums_do_not_depend_on_other_readers(graph):
    axis = same(9, 5)
    row_products.blocks(v1.placeholder(tf.float32, [2, 9, 9, 1]), axis, axis)
    sums = [op for op in graph.get_operations() if op.type == "AddN" and len(op.inputs) > 2]
    assert all(len(operand.consumers()) == 1 for op in sums for operand in op.inputs)
