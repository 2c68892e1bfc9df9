"""Geometry of a convolution: patches, and the axes of its filter."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.patches.extraction import ConvGeometry, extract_patches, num_locations, spatial_entries
from kfac.patches.filter_axis import FilterAxis, rows_and_columns

v1 = tf.compat.v1

GEOMETRIES = [
    ConvGeometry((3, 3), (1, 1), "SAME"),
    ConvGeometry((3, 2), (2, 2), "SAME"),
    ConvGeometry((2, 3), (2, 1), "VALID"),
    ConvGeometry((3, 2), (1, 1), "VALID", (2, 1)),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_patches_times_filter_is_the_convolution(graph, session, geometry):
    random = np.random.RandomState(0)
    images, kernel = random.randn(2, 7, 6, 3), random.randn(*geometry.kernel, 3, 4)
    outputs = tf.nn.conv2d(
        tf.constant(images),
        kernel,
        geometry.strides,
        geometry.padding,
        dilations=geometry.dilations,
    )
    unknown = v1.placeholder_with_default(images, [None, None, None, 3])
    patches = [extract_patches(x, geometry) for x in (tf.constant(images), unknown)]
    expected, *both = session.run([outputs, *patches])
    for found in both:
        np.testing.assert_allclose(found @ kernel.reshape(-1, 4), expected, atol=1e-12)
    height, width = expected.shape[1:3]
    assert num_locations([7, 6], geometry) == height * width
    dynamic = num_locations([tf.constant(7), tf.constant(6)], geometry)
    assert session.run(dynamic) == height * width


def test_filters_of_one_entry_see_the_image_itself(graph):
    images = tf.zeros([2, 4, 4, 3])
    assert extract_patches(images, ConvGeometry((1, 1), (1, 1), "SAME")) is images


def test_dilation_beyond_the_image_sees_one_pixel(graph, session):
    images = np.random.RandomState(0).randn(4, 3, 3, 2)
    geometry = ConvGeometry((3, 3), (1, 1), "SAME", (9, 9))
    patches = session.run(extract_patches(tf.constant(images), geometry))
    assert np.linalg.matrix_rank(patches.reshape(-1, patches.shape[-1])) == 2


def test_spatial_entries():
    assert spatial_entries([1, 2, 3, 1], "strides", "conv/w", 2) == (2, 3)
    assert spatial_entries([1, 1, 2, 3], "strides", "conv/w", 2, True) == (2, 3)
    assert spatial_entries(None, "dilations", "conv/w", 2) == (1, 1)
    assert spatial_entries([1, 4, 1], "strides", "conv/w", 1) == (4,)
    for bad in ((2, 1, 1, 1), (1, 1, 1, 2), (1, 1), (1, 0, 1, 1)):
        with pytest.raises(ValueError, match=r"convolution conv/w: strides=.*are 4"):
            spatial_entries(bad, "strides", "conv/w", 2)


def test_axes_of_a_filter():
    images = [None, 7, 6, 2]
    same = rows_and_columns(images, ConvGeometry((3, 4), (1, 1), "SAME"))
    assert same == (FilterAxis(7, 3, 1, 7), FilterAxis(6, 4, 1, 6))
    valid = rows_and_columns(images, ConvGeometry((3, 7), (1, 1), "VALID"))
    assert valid == (FilterAxis(7, 3, 0, 5), FilterAxis(6, 7, 0, 0))
    line = [None, 9, 2]
    found = rows_and_columns(line, ConvGeometry((5,), (1,), "SAME", (1,)))
    assert found == (FilterAxis(9, 5, 2, 9), FilterAxis(1, 1, 0, 1))
