import numpy as np
import pytest
import tensorflow as tf

from kfac import shifted_correlation
from kfac.conv_geometry import ConvGeometry

v1 = tf.compat.v1


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("size", "kernel"),
    [
        ((7, 6), (3, 3)),
        ((7, 6), (4, 2)),
        ((5, 9), (5, 5)),
        ((6, 4), (2, 1)),
        ((4, 6), (1, 3)),
        ((9,), (5,)),
        ((6,), (2,)),
    ],
)
def test_equal_to_patches(graph, session, reference_patches, size, kernel, padding):
    if padding == "VALID" and any(k > n for k, n in zip(kernel, size, strict=True)):
        pytest.skip("no location")
    images = np.random.RandomState(0).randn(3, *size, 2)
    ones = (1,) * len(kernel)
    geometry = ConvGeometry(kernel, ones, padding, ones)
    p = np.concatenate(reference_patches(images, kernel, ones, padding, ones))
    found = session.run(shifted_correlation.patch_sums(tf.constant(images), geometry))
    np.testing.assert_allclose(found.products, p.T @ p, atol=1e-11)
    np.testing.assert_allclose(found.values, p.sum(0), atol=1e-11)
    assert shifted_correlation.locations(tf.constant(images), geometry) * 3 == len(p)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_filter_larger_than_the_image(graph, session, reference_patches, size):
    images = np.random.RandomState(0).randn(2, size, size, 1)
    geometry = ConvGeometry((5, 5), (1, 1), "SAME")
    p = np.concatenate(reference_patches(images, (5, 5), (1, 1), "SAME", (1, 1)))
    found = session.run(shifted_correlation.patch_sums(tf.constant(images), geometry))
    np.testing.assert_allclose(found.products, p.T @ p, atol=1e-12)


def test_single_precision(graph, session, reference_patches):
    images = np.random.RandomState(0).randn(16, 14, 14, 4).astype("f")
    geometry = ConvGeometry((5, 5), (1, 1), "SAME")
    p = np.concatenate(reference_patches(images.astype("f8"), (5, 5), (1, 1), "SAME", (1, 1)))
    expected = p.T @ p / len(p)
    found = session.run(shifted_correlation.patch_sums(tf.constant(images), geometry)).products
    assert np.abs(found / len(p) - expected).max() <= 1e-5 * np.abs(expected).max()


def test_batch_size_may_be_unknown(graph, session):
    images = np.random.RandomState(0).randn(4, 5, 5, 2)
    x = v1.placeholder(tf.float64, [None, 5, 5, 2])
    geometry = ConvGeometry((3, 3), (1, 1), "SAME")
    assert shifted_correlation.applies(x, geometry)
    static = shifted_correlation.patch_sums(tf.constant(images), geometry).products
    dynamic = shifted_correlation.patch_sums(x, geometry).products
    np.testing.assert_allclose(*session.run([static, dynamic], {x: images}), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "geometry"),
    [
        ((4, 5, 5, 2), ConvGeometry((3, 3), (2, 2), "SAME")),
        ((4, 5, 5, 2), ConvGeometry((3, 3), (1, 1), "SAME", (2, 2))),
        ((4, 5, 5, 2), ConvGeometry((1, 1), (1, 1), "SAME")),
        ((4, None, 5, 2), ConvGeometry((3, 3), (1, 1), "SAME")),
        ((4, 5, 5, 5, 2), ConvGeometry((3, 3, 3), (1, 1, 1), "SAME", (1, 1, 1))),
    ],
)
def test_where_it_does_not_apply(graph, shape, geometry):
    assert not shifted_correlation.applies(v1.placeholder(tf.float32, shape), geometry)


def test_estimated_cost(graph):
    large = v1.placeholder(tf.float32, [256, 14, 14, 16])
    assert shifted_correlation.is_cheaper(large, ConvGeometry((5, 5), (1, 1), "SAME"))
    # With one location and few examples, starting the products costs more than they save.
    small = v1.placeholder(tf.float32, [4, 3, 3, 64])
    assert not shifted_correlation.is_cheaper(small, ConvGeometry((3, 3), (1, 1), "VALID"))


@pytest.mark.parametrize(("columns", "kernel"), [(40, 3), (29, 5), (24, 1)])
def test_wide_images_are_cut_into_tiles(
    graph, session, reference_patches, monkeypatch, columns, kernel
):
    monkeypatch.setattr(shifted_correlation, "PRODUCT_COST", 0.0)  # as if the batch were large
    images = np.random.RandomState(0).randn(2, 4, columns, 8)
    x = v1.placeholder(tf.float64, [None, 4, columns, 8])
    geometry = ConvGeometry((2, kernel), (1, 1), "SAME")
    sums = shifted_correlation.patch_sums(x, geometry)
    products = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul"]
    assert max(product.shape.num_elements() for product in products) < (columns * 8) ** 2
    p = np.concatenate(reference_patches(images, (2, kernel), (1, 1), "SAME", (1, 1)))
    found = session.run(sums, {x: images})
    np.testing.assert_allclose(found.products, p.T @ p, atol=1e-11)
    np.testing.assert_allclose(found.values, p.sum(0), atol=1e-11)
