import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors import (
    ConvDiagonalFactor,
    ConvInputKroneckerFactor,
    ConvOutputKroneckerFactor,
)
from kfac.fisher_factors.conv import Sampling
from kfac.patches.extraction import ConvGeometry

v1 = tf.compat.v1

POINT = ConvGeometry((1, 1), (1, 1), "SAME")


@pytest.mark.parametrize("sampling", [None, Sampling(patches=True)])
def test_cheaper_way_is_taken_of_whole_images(graph, sampling):
    images = v1.placeholder(tf.float32, (256, 14, 14, 16))
    args = ((images,),), ConvGeometry((5, 5), (1, 1), "SAME"), True, ("",), sampling
    ConvInputKroneckerFactor(*args, name="conv/input").batch_statistic()
    # Only patches of whole images are as long as a row of the factor.
    outputs = [o for op in graph.get_operations() for o in op.outputs if o.shape.rank == 4]
    makes_patches = 25 * 16 in {o.shape[-1] for o in outputs}
    assert makes_patches == (sampling is not None)


@pytest.mark.parametrize(
    ("how", "channels", "bad"),
    [("patches", 2, np.nan), ("shifts", 1, np.inf), ("shifts", 16, 1e30)],
)
def test_non_finite_images_make_the_diagonal_non_finite(graph, session, how, channels, bad):
    images = np.ones([2, 6, 6, channels], np.float32)
    found = []
    for value in (2.0, bad):
        images[1, 0, 5, -1] = value
        args = ((tf.constant(images),),), ConvGeometry((3, 3), (1, 1), "SAME"), True, ("",)
        config = CurvatureConfig(conv_moment=how)
        factor = ConvInputKroneckerFactor(*args, name="conv/input", config=config)
        assert factor.can_predict_finite
        found.append([factor.is_finite(factor.batch_statistic()), factor.will_be_finite()])
    assert session.run(found) == [[True, True], [False, False]]


def test_tensors_of_other_shapes(graph):
    images = v1.placeholder(tf.float32, [None, 5, 5, None])
    inputs = ConvInputKroneckerFactor(((images,),), POINT, True, ("",), name="conv/input")
    outputs = ConvOutputKroneckerFactor(((tf.ones([2, 3]),),), POINT, ("",), name="conv/output")
    for factor, message in (
        (inputs, r"'conv/input'.*the last of static size"),
        (outputs, r"'conv/output'.*4 axes"),
    ):
        with pytest.raises(ValueError, match=message):
            factor.instantiate_cov_variables()


def test_masked_statistic_cannot_be_predicted_finite(graph):
    args = ((tf.ones([2, 3, 3, 1]),),), ConvGeometry((3, 3), (1, 1), "SAME"), True, ("",)
    mask = (1e30,) * 9
    assert not ConvInputKroneckerFactor(*args, patch_mask=mask, name="masked").can_predict_finite


def test_mask_multiplies_every_patch(graph, session, reference_patches):
    random = np.random.RandomState(0)
    images, mask = random.randn(3, 5, 5, 2), random.rand(18)
    geometry = ConvGeometry((3, 3), (1, 1), "SAME")
    rows = np.concatenate(reference_patches(images, *geometry[:4])) * mask
    rows = np.hstack([rows, np.ones([len(rows), 1])])
    args = ((tf.constant(images),),), geometry, True, ("",), None, tuple(mask)
    for how in ("patches", "shifts"):
        config = CurvatureConfig(conv_moment=how)
        factor = ConvInputKroneckerFactor(*args, name="conv/input", config=config)
        found = session.run(factor.batch_statistic())
        np.testing.assert_allclose(found, rows.T @ rows / len(rows), atol=1e-12)


def test_sampled_inputs_are_drawn(graph, session):
    images, config = np.arange(10.0).reshape(10, 1, 1, 1), CurvatureConfig(input_fraction=0.2)
    args = ((tf.constant(images),),), POINT, False, ("",), Sampling(inputs=True)
    factor = ConvInputKroneckerFactor(*args, name="conv/input", config=config)
    assert session.run(factor.batch_statistic()).item() > 0.5, "the first two images give 0.5"


def test_diagonal_factor_with_a_mask_and_strides(graph, session, reference_patches):
    random = np.random.RandomState(0)
    images, g, mask = random.randn(5, 5, 6, 2), random.randn(5, 2, 4, 3), random.rand(12)
    geometry = ConvGeometry((2, 3), (2, 1), "VALID")
    p = reference_patches(images, *geometry[:4]) * mask
    p = np.concatenate([p, np.ones([5, 8, 1])], axis=2)
    expected = (np.einsum("ntd,nto->ndo", p, g.reshape(5, 8, 3)) ** 2).mean(0).ravel()
    towers = tuple((tf.constant(images[s]), tf.constant(g[s])) for s in (slice(2), slice(2, 5)))
    args = (towers,), geometry, True, ("", ""), tuple(mask)
    factor = ConvDiagonalFactor(*args, name="conv")
    assert factor.cov_shape == (len(expected),)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), expected, rtol=1e-10)
