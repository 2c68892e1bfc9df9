import numpy as np
import pytest
import tensorflow as tf

from kfac.patches import row_products, second_moment, spectral_products
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1


@pytest.fixture(params=[row_products, spectral_products], ids=["rows", "spectral"])
def way(request, monkeypatch):
    """Makes `patch_sums` find the blocks in one of the ways."""
    monkeypatch.setattr(second_moment, "_WAYS", (request.param,))


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
def test_equal_to_patches(graph, session, reference_patches, way, size, kernel, padding):
    if padding == "VALID" and any(k > n for k, n in zip(kernel, size, strict=True)):
        pytest.skip("no location")
    images = np.random.RandomState(0).randn(3, *size, 2)
    ones = (1,) * len(kernel)
    geometry = ConvGeometry(kernel, ones, padding, ones)
    p = np.concatenate(reference_patches(images, kernel, ones, padding, ones))
    found = session.run(second_moment.patch_sums(tf.constant(images), geometry))
    np.testing.assert_allclose(found.products, p.T @ p, atol=1e-11)
    np.testing.assert_allclose(found.values, p.sum(0), atol=1e-11)
    assert second_moment.locations(tf.constant(images), geometry) * 3 == len(p)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_filter_larger_than_the_image(graph, session, reference_patches, way, size):
    images = np.random.RandomState(0).randn(2, size, size, 1)
    geometry = ConvGeometry((5, 5), (1, 1), "SAME")
    p = np.concatenate(reference_patches(images, (5, 5), (1, 1), "SAME", (1, 1)))
    found = session.run(second_moment.patch_sums(tf.constant(images), geometry))
    np.testing.assert_allclose(found.products, p.T @ p, atol=1e-12)


def test_single_precision(behavior, graph, session, reference_patches, way):
    images = np.random.RandomState(0).randn(16, 14, 14, 4).astype("f")
    geometry = ConvGeometry((5, 5), (1, 1), "SAME")
    p = np.concatenate(reference_patches(images.astype("f8"), (5, 5), (1, 1), "SAME", (1, 1)))
    expected = p.T @ p / len(p)
    found = session.run(second_moment.patch_sums(tf.constant(images), geometry)).products
    assert np.abs(found / len(p) - expected).max() <= 1e-5 * np.abs(expected).max()


def test_batch_size_may_be_unknown(graph, session, way):
    images = np.random.RandomState(0).randn(4, 5, 5, 2)
    x = v1.placeholder(tf.float64, [None, 5, 5, 2])
    geometry = ConvGeometry((3, 3), (1, 1), "SAME")
    assert second_moment.applies(x, geometry)
    static = second_moment.patch_sums(tf.constant(images), geometry).products
    dynamic = second_moment.patch_sums(x, geometry).products
    np.testing.assert_allclose(*session.run([static, dynamic], {x: images}), atol=1e-12)


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
def test_unsupported_images_and_filters(graph, shape, geometry):
    assert not second_moment.applies(v1.placeholder(tf.float32, shape), geometry)


def test_estimated_cost(graph):
    large = v1.placeholder(tf.float32, [256, 14, 14, 16])
    assert second_moment.is_cheaper(large, ConvGeometry((5, 5), (1, 1), "SAME"))
    # With one location and few examples, starting the products costs more than they save.
    small = v1.placeholder(tf.float32, [4, 3, 3, 64])
    assert not second_moment.is_cheaper(small, ConvGeometry((3, 3), (1, 1), "VALID"))


@pytest.mark.parametrize(("channels", "is_spectral"), [(1, False), (16, True)])
def test_cheapest_way_is_taken(graph, channels, is_spectral):
    images = v1.placeholder(tf.float32, [256, 14, 14, channels])
    second_moment.patch_sums(images, ConvGeometry((5, 5), (1, 1), "SAME"))
    types = {op.type for op in graph.get_operations()}
    assert ("BatchMatMulV2" in types) == is_spectral


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("way", ["patches", "shifts", "auto"])
def test_every_way_gives_the_plain_formula(graph, session, reference_patches, way, has_bias):
    images = np.random.RandomState(0).randn(3, 5, 4, 2)
    p = np.concatenate(reference_patches(images, (3, 2), (1, 1), "SAME", (1, 1)))
    p = np.hstack([p, np.ones([len(p), 1])]) if has_bias else p
    geometry = ConvGeometry((3, 2), (1, 1), "SAME")
    found = session.run(second_moment.patch_moment(tf.constant(images), geometry, has_bias, way))
    np.testing.assert_allclose(found.total, p.T @ p, atol=1e-11)
    assert found.count == len(p)


def test_chosen_patches(graph, session):
    geometry = ConvGeometry((2, 2), (1, 1), "VALID")
    images = tf.ones([4, 6, 6, 1])
    found = session.run(
        second_moment.patch_moment(images, geometry, True, "shifts", lambda rows: rows[:10])
    )
    np.testing.assert_array_equal(found.total, np.full([5, 5], 10.0))
    assert found.count == 10
