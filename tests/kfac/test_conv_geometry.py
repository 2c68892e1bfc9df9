import numpy as np
import pytest
import tensorflow as tf

from kfac import conv_geometry
from kfac.conv_geometry import ConvGeometry

v1 = tf.compat.v1

GEOMETRIES = [
    ConvGeometry((3, 3), (1, 1), "SAME"),
    ConvGeometry((3, 3), (1, 1), "VALID"),
    ConvGeometry((3, 2), (2, 2), "SAME"),
    ConvGeometry((2, 3), (2, 1), "VALID"),
    ConvGeometry((3, 3), (1, 1), "SAME", (2, 2)),
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
    patches = conv_geometry.extract_patches(tf.constant(images), geometry)
    expected, found = session.run([outputs, patches])
    np.testing.assert_allclose(found @ kernel.reshape(-1, 4), expected.reshape(-1, 4), atol=1e-12)
    height, width = expected.shape[1:3]
    assert conv_geometry.num_locations(7, 6, geometry) == height * width
    dynamic = conv_geometry.num_locations(tf.constant(7), tf.constant(6), geometry)
    assert session.run(dynamic) == height * width


def test_stride_two_by_one_on_three_by_three_has_rank_six(graph, session):
    images = np.random.RandomState(0).randn(3, 3, 3, 1)
    geometry = ConvGeometry((3, 3), (2, 1), "SAME")
    patches = session.run(conv_geometry.extract_patches(tf.constant(images[:1]), geometry))
    assert np.linalg.matrix_rank(patches) == 6


def test_dilation_beyond_the_image_sees_one_pixel(graph, session):
    images = np.random.RandomState(0).randn(4, 3, 3, 2)
    geometry = ConvGeometry((3, 3), (1, 1), "SAME", (9, 9))
    patches = session.run(conv_geometry.extract_patches(tf.constant(images), geometry))
    assert np.linalg.matrix_rank(patches) == 2


def test_spatial_pair():
    assert conv_geometry.spatial_pair([1, 2, 3, 1], "strides", "conv/w") == (2, 3)
    assert conv_geometry.spatial_pair(None, "dilations", "conv/w") == (1, 1)


@pytest.mark.parametrize("bad", [(2, 1, 1, 1), (1, 1, 1, 2), (1, 1), (1, 0, 1, 1)])
def test_bad_strides(bad):
    with pytest.raises(ValueError, match=r"Cannot register convolution conv/w: strides=.*four"):
        conv_geometry.spatial_pair(bad, "strides", "conv/w")
