"""Second moments of patches: plain, by rows and by spectra, and the choice between them."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.symmetric_packing import unpack_symmetric
from kfac.patches import cost, row_products, second_moment, spectral_products
from kfac.patches.extraction import ConvGeometry, num_locations
from kfac.patches.filter_axis import FilterAxis

v1 = tf.compat.v1
patch_sums = second_moment.patch_sums.__wrapped__  # Its operations, in the graph itself.
SAME5 = FilterAxis(14, 5, 2, 14)


@pytest.mark.parametrize(
    ("size", "kernel", "padding"),
    [
        ((7, 6), (3, 3), "SAME"),
        ((7, 6), (4, 2), "VALID"),
        ((5, 9), (5, 5), "VALID"),
        ((6, 4), (2, 1), "SAME"),
        ((4, 6), (1, 3), "VALID"),
        ((9,), (5,), "SAME"),
        ((6,), (2,), "VALID"),
        ((1, 1), (5, 5), "SAME"),
        ((3, 3), (5, 5), "SAME"),
    ],
)
def test_equal_to_patches(graph, session, reference_patches, monkeypatch, size, kernel, padding):
    images = np.random.RandomState(0).randn(3, *size, 2)
    ones = (1,) * len(kernel)
    geometry = ConvGeometry(kernel, ones, padding, ones)
    p = np.concatenate(reference_patches(images, kernel, ones, padding, ones))
    assert num_locations(size, geometry) * 3 == len(p)
    x = v1.placeholder_with_default(images, [None, *size, 2])
    for way in (row_products, spectral_products):
        monkeypatch.setattr(second_moment, "_WAYS", (way,))
        products, values = session.run(patch_sums(x, geometry=geometry))
        np.testing.assert_allclose(products, p.T @ p, atol=1e-11)
        np.testing.assert_allclose(values, p.sum(0), atol=1e-11)


@pytest.mark.parametrize("has_bias", [True, False])
def test_packed(graph, session, has_bias):
    images = tf.constant(np.random.RandomState(0).randn(3, 5, 4, 3))
    args = images, ConvGeometry((3, 3), (1, 1), "SAME"), has_bias
    plain, packed = (second_moment.moment_without_patches(*args, packs) for packs in (False, True))
    size = 27 + has_bias
    assert packed[0].shape.num_elements() < 0.6 * size**2
    expected, found = session.run([plain[0], unpack_symmetric(packed[0], size)])
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert plain[1] == packed[1] == 60


@pytest.mark.parametrize("columns", [40, pytest.param(29, marks=pytest.mark.broad)])
def test_wide_images_are_cut_into_tiles(graph, session, reference_patches, monkeypatch, columns):
    monkeypatch.setattr(cost, "PRODUCT_COST", 0.0)  # as if the batch were large
    monkeypatch.setattr(second_moment, "_WAYS", (row_products,))
    images = np.random.RandomState(0).randn(2, 4, columns, 8)
    x = v1.placeholder_with_default(images, [None, 4, columns, 8])
    sums, _ = patch_sums(x, geometry=ConvGeometry((2, 3), (1, 1), "SAME"))
    products = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul"]
    assert max(product.shape.num_elements() for product in products) < (columns * 8) ** 2
    p = np.concatenate(reference_patches(images, (2, 3), (1, 1), "SAME", (1, 1)))
    np.testing.assert_allclose(session.run(sums), p.T @ p, atol=1e-11)


def test_supported_images_and_filters():
    for shape, expected, *geometry in (
        ((None, 5, 5, 2), True, (3, 3), (1, 1), "SAME"),
        ((4, 5, 5, 2), False, (3, 3), (2, 2), "SAME"),
        ((4, 5, 5, 2), False, (3, 3), (1, 1), "SAME", (2, 2)),
        ((4, 5, 5, 2), False, (1, 1), (1, 1), "SAME"),
        ((4, None, 5, 2), False, (3, 3), (1, 1), "SAME"),
        ((4, 5, 5, 5, 2), False, (3, 3, 3), (1, 1, 1), "SAME", (1, 1, 1)),
    ):
        assert second_moment.applies(shape, ConvGeometry(*geometry)) is expected


def test_estimated_cost():
    large = [256, 14, 14, 16]
    assert second_moment.is_cheaper(large, ConvGeometry((5, 5), (1, 1), "SAME"))
    # With one location and few examples, starting the products costs more than they save.
    small = [4, 3, 3, 64]
    assert not second_moment.is_cheaper(small, ConvGeometry((3, 3), (1, 1), "VALID"))


@pytest.mark.parametrize(("channels", "is_spectral"), [(1, False), (16, True)])
def test_cheapest_way_is_taken(graph, channels, is_spectral):
    images = v1.placeholder(tf.float32, [256, 14, 14, channels])
    patch_sums(images, geometry=ConvGeometry((5, 5), (1, 1), "SAME"))
    types = {op.type for op in graph.get_operations()}
    assert ("BatchMatMulV2" in types) == is_spectral


def test_sums_do_not_depend_on_other_readers(graph):
    axis = FilterAxis(9, 5, 2, 9)
    row_products.blocks(v1.placeholder(tf.float32, [2, 9, 9, 1]), axis, axis)
    sums = [op for op in graph.get_operations() if op.type == "AddN" and len(op.inputs) > 2]
    assert all(len(operand.consumers()) == 1 for op in sums for operand in op.inputs)


def test_single_precision_of_spectra(behavior, graph, session):
    images = np.maximum(np.random.RandomState(0).randn(64, 14, 14, 4), 0).astype("f4")
    ways = [
        way.blocks(tf.constant(images, dtype), SAME5, SAME5)
        for way, dtype in ((spectral_products, tf.float32), (row_products, tf.float64))
    ]
    found, expected = session.run(ways)
    assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max()
