import numpy as np
import pytest
import tensorflow as tf

from kfac.conv_geometry import ConvGeometry
from kfac.fisher_factors import ConvInputKroneckerFactor, ConvOutputKroneckerFactor

v1 = tf.compat.v1


def padding_before(size, kernel, stride, rate):
    extent = (kernel - 1) * rate + 1
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2


def reference_patches(images, geometry):
    """Patches one by one; entries outside of the image are zero."""
    (kh, kw), (sh, sw), padding, (rh, rw) = geometry
    n, height, width, channels = images.shape
    if padding == "SAME":
        out_h, out_w = -(-height // sh), -(-width // sw)
        top, left = padding_before(height, kh, sh, rh), padding_before(width, kw, sw, rw)
    else:
        out_h = -(-(height - (kh - 1) * rh) // sh)
        out_w = -(-(width - (kw - 1) * rw) // sw)
        top = left = 0
    patches = np.zeros([n, out_h, out_w, kh, kw, channels])
    for y, x, i, j in np.ndindex(out_h, out_w, kh, kw):
        row, column = y * sh - top + i * rh, x * sw - left + j * rw
        if 0 <= row < height and 0 <= column < width:
            patches[:, y, x, i, j] = images[:, row, column]
    return patches.reshape(n * out_h * out_w, -1)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry((3, 3), (1, 1), "SAME"),
        ConvGeometry((3, 2), (1, 1), "VALID"),
        ConvGeometry((3, 3), (2, 2), "SAME"),
        ConvGeometry((3, 3), (2, 1), "VALID"),
        ConvGeometry((3, 3), (1, 1), "SAME", (2, 2)),
        ConvGeometry((2, 3), (1, 1), "VALID", (2, 2)),
    ],
)
def test_input_factor(graph, session, geometry, has_bias):
    images = np.random.RandomState(0).randn(3, 7, 6, 2)
    tensors = ((tf.constant(images[:1]), tf.constant(images[1:])),)
    factor = ConvInputKroneckerFactor(tensors, geometry, has_bias, ("", ""), name="conv/input")
    rows = reference_patches(images, geometry)
    if has_bias:
        rows = np.hstack([rows, np.ones([len(rows), 1])])
    assert factor.dimension == rows.shape[1]
    expected = rows.T @ rows / len(rows)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), expected, atol=1e-13)


def test_input_factor_known_value(graph, session):
    images = tf.constant([1.0, 2.0], shape=[2, 1, 1, 1])
    geometry = ConvGeometry((1, 1), (1, 1), "SAME")
    factor = ConvInputKroneckerFactor(((images,),), geometry, True, ("",), name="conv/input")
    np.testing.assert_allclose(session.run(factor.batch_statistic()), [[2.5, 1.5], [1.5, 1]])


def test_output_factor_known_value(graph, session):
    gradients = tf.reshape(tf.range(1.0, 17.0), [2, 2, 2, 2])
    factor = ConvOutputKroneckerFactor(((gradients,),), ("",), name="conv/output")
    # Half of it and half of the identity are [[43, 46.5], [46.5, 51.5]].
    np.testing.assert_allclose(session.run(factor.batch_statistic()), [[85, 93], [93, 102]])


def test_output_factor_needs_images(graph):
    factor = ConvOutputKroneckerFactor(((tf.ones([2, 3]),),), ("",), name="conv/output")
    with pytest.raises(ValueError, match=r"'conv/output'.*4 axes"):
        factor.instantiate_cov_variables()


def test_input_factor_needs_static_channels(graph):
    images = v1.placeholder(tf.float32, [None, 5, 5, None])
    geometry = ConvGeometry((3, 3), (1, 1), "SAME")
    factor = ConvInputKroneckerFactor(((images,),), geometry, True, ("",), name="conv/input")
    with pytest.raises(ValueError, match=r"'conv/input'.*the last of static size"):
        factor.instantiate_cov_variables()
