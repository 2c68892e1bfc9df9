import numpy as np
import pytest
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.fisher_factors import (
    ConvDiagonalFactor,
    ConvInputKroneckerFactor,
    ConvOutputKroneckerFactor,
    DepthwiseConvDiagonalFactor,
)
from kfac.fisher_factors.conv import Sampling
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1

POINT = ConvGeometry((1, 1), (1, 1), "SAME")


@pytest.mark.parametrize("how", ["patches", "shifts"])
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
def test_input_factor(graph, session, reference_patches, geometry, has_bias, how):
    images = np.random.RandomState(0).randn(3, 7, 6, 2)
    tensors = ((tf.constant(images[:1]), tf.constant(images[1:])),)
    config = CurvatureConfig(conv_moment=how)
    factor = ConvInputKroneckerFactor(
        tensors, geometry, has_bias, ("", ""), name="conv/input", config=config
    )
    rows = np.concatenate(reference_patches(images, *geometry[:4]))
    if has_bias:
        rows = np.hstack([rows, np.ones([len(rows), 1])])
    assert factor.dimension == rows.shape[1]
    expected = rows.T @ rows / len(rows)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), expected, atol=1e-13)


LARGE, SMALL = (256, 14, 14, 16), (4, 3, 3, 64)


@pytest.mark.parametrize(
    ("shape", "geometry", "sampling", "expected"),
    [
        (LARGE, ConvGeometry((5, 5), (1, 1), "SAME"), None, True),
        (LARGE, ConvGeometry((5, 5), (2, 2), "SAME"), None, False),
        (LARGE, ConvGeometry((5, 5), (1, 1), "SAME"), Sampling(patches=True), False),
        (SMALL, ConvGeometry((3, 3), (1, 1), "VALID"), None, False),
    ],
)
def test_cheaper_way_is_taken(graph, shape, geometry, sampling, expected):
    args = ((v1.placeholder(tf.float32, shape),),), geometry, True, ("",), sampling
    ConvInputKroneckerFactor(*args, name="conv/input").batch_statistic()
    # Only patches of whole images are as long as a row of the factor.
    outputs = [o for op in graph.get_operations() for o in op.outputs if o.shape.rank == 4]
    makes_patches = geometry.kernel[0] ** 2 * shape[-1] in {o.shape[-1] for o in outputs}
    assert makes_patches != expected


def test_input_factor_known_value(graph, session):
    images = tf.constant([1.0, 2.0], shape=[2, 1, 1, 1])
    geometry = ConvGeometry((1, 1), (1, 1), "SAME")
    factor = ConvInputKroneckerFactor(((images,),), geometry, True, ("",), name="conv/input")
    np.testing.assert_allclose(session.run(factor.batch_statistic()), [[2.5, 1.5], [1.5, 1]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize(("how", "channels"), [("patches", 2), ("shifts", 1), ("shifts", 16)])
def test_non_finite_images_make_the_diagonal_non_finite(graph, session, how, channels, bad):
    images = np.ones([2, 6, 6, channels], np.float32)
    found = []
    for value in (2.0, bad):
        images[1, 0, 5, -1] = value
        factor = ConvInputKroneckerFactor(
            ((tf.constant(images),),),
            ConvGeometry((3, 3), (1, 1), "SAME"),
            True,
            ("",),
            name="conv/input",
            config=CurvatureConfig(conv_moment=how),
        )
        assert factor.can_predict_finite
        found.append([factor.is_finite(factor.batch_statistic()), factor.will_be_finite()])
    assert session.run(found) == [[True, True], [False, False]]


def test_masked_statistic_cannot_be_predicted_finite(graph):
    args = ((tf.ones([2, 3, 3, 1]),),), ConvGeometry((3, 3), (1, 1), "SAME"), True, ("",)
    mask = (1e30,) * 9
    assert not ConvInputKroneckerFactor(*args, patch_mask=mask, name="masked").can_predict_finite


def test_output_factor_known_value(graph, session):
    gradients = tf.reshape(tf.range(1.0, 17.0), [2, 2, 2, 2])
    factor = ConvOutputKroneckerFactor(((gradients,),), POINT, ("",), name="conv/output")
    # Half of it and half of the identity are [[43, 46.5], [46.5, 51.5]].
    np.testing.assert_allclose(session.run(factor.batch_statistic()), [[85, 93], [93, 102]])


def test_output_factor_needs_images(graph):
    factor = ConvOutputKroneckerFactor(((tf.ones([2, 3]),),), POINT, ("",), name="conv/output")
    with pytest.raises(ValueError, match=r"'conv/output'.*4 axes"):
        factor.instantiate_cov_variables()


def test_input_factor_needs_static_channels(graph):
    images = v1.placeholder(tf.float32, [None, 5, 5, None])
    geometry = ConvGeometry((3, 3), (1, 1), "SAME")
    factor = ConvInputKroneckerFactor(((images,),), geometry, True, ("",), name="conv/input")
    with pytest.raises(ValueError, match=r"'conv/input'.*the last of static size"):
        factor.instantiate_cov_variables()


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


def test_channels_first(graph, session):
    images = tf.constant(np.random.RandomState(0).randn(3, 5, 6, 2))
    last = ConvGeometry((3, 2), (2, 1), "SAME")
    first = last._replace(channels_first=True)
    swapped = tf.transpose(images, [0, 3, 1, 2])
    for make in (
        lambda x, geometry: ConvInputKroneckerFactor(((x,),), geometry, True, ("",), name="a"),
        lambda x, geometry: ConvOutputKroneckerFactor(((x,),), geometry, ("",), name="a"),
    ):
        a, b = make(images, last), make(swapped, first)
        assert a.dimension == b.dimension
        np.testing.assert_allclose(*session.run([a.batch_statistic(), b.batch_statistic()]))


def test_sampled_patches_are_as_many_as_allowed(graph, session):
    config = CurvatureConfig(patches_per_dimension=2)
    args = (((tf.ones([4, 6, 6, 1]),),), ConvGeometry((2, 2), (1, 1), "VALID"), True, ("",))
    factor = ConvInputKroneckerFactor(
        *args, Sampling(patches=True), name="conv/input", config=config
    )
    total, count = factor._tower_moment(tf.ones([4, 6, 6, 1]))
    assert count == 2 * 5
    np.testing.assert_array_equal(session.run(total), np.full([5, 5], 10.0))


def test_sampled_inputs_are_some_of_the_examples(graph, session):
    images = np.arange(10.0).reshape(10, 1, 1, 1) ** 3
    config = CurvatureConfig(input_fraction=0.2)
    geometry = ConvGeometry((1, 1), (1, 1), "VALID")
    factor = ConvInputKroneckerFactor(
        ((tf.constant(images),),), geometry, False, ("",), Sampling(inputs=True), name="conv/input",
        config=config,
    )  # fmt: skip
    found = session.run(factor.batch_statistic()).item()
    squares = images.ravel() ** 2
    pairs = [(a + b) / 2 for i, a in enumerate(squares) for b in squares[:i]]
    assert np.isclose(pairs, found).any()


GEOMETRIES = [
    ConvGeometry((3, 2), (1, 1), "SAME"),
    ConvGeometry((2, 3), (2, 1), "VALID"),
    ConvGeometry((2, 2), (1, 1), "VALID", (2, 1)),
]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_diagonal_factor(graph, session, reference_patches, geometry, has_bias):
    random = np.random.RandomState(0)
    images = random.randn(5, 5, 6, 2)
    p = reference_patches(images, *geometry[:4]) * (
        mask := np.linspace(0.5, 1, 2 * 3 * 2)[: 2 * np.prod(geometry.kernel)]
    )
    g = random.randn(5, p.shape[1], 3)
    if has_bias:
        p = np.concatenate([p, np.ones([*p.shape[:2], 1])], axis=2)
    expected = (np.einsum("ntd,nto->ndo", p, g) ** 2).mean(0).ravel()
    parts = [(tf.constant(images[s]), tf.constant(g[s])) for s in (slice(2), slice(2, 5))]
    shape = tf.nn.conv2d(
        images, np.ones([*geometry.kernel, 2, 3]), geometry.strides, geometry.padding,
        dilations=geometry.dilations,
    ).shape  # fmt: skip
    tensors = (tuple((x, tf.reshape(g, [-1, *shape[1:]])) for x, g in parts),)
    args = tensors, geometry, has_bias, ("", ""), tuple(mask)
    factor = ConvDiagonalFactor(*args, name="conv")
    assert factor.cov_shape == (len(expected),)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), expected, rtol=1e-10)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_depthwise_factor_is_part_of_the_embedded_filter(graph, session, geometry):
    random = np.random.RandomState(0)
    images, channels, multiplier = random.randn(4, 5, 6, 3), 3, 2
    kernel = random.randn(*geometry.kernel, channels, multiplier)
    outputs = tf.nn.depthwise_conv2d(
        tf.constant(images), kernel, (1, 2, 2, 1) if geometry.strides == (2, 2) else (1, 1, 1, 1),
        geometry.padding, dilations=geometry.dilations,
    )  # fmt: skip
    geometry = geometry._replace(strides=(1, 1))
    g = tf.constant(random.randn(*outputs.shape.as_list()))
    tensors = (((tf.constant(images), g),),)
    whole = ConvDiagonalFactor(tensors, geometry, False, ("",), name="conv")
    part = DepthwiseConvDiagonalFactor(tensors, geometry, ("",), name="depthwise")
    found, embedded = session.run([part.batch_statistic(), whole.batch_statistic()])
    embedded = embedded.reshape(-1, channels, channels, multiplier)
    expected = np.einsum("kccm->kcm", embedded).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert part.dimension == kernel.size
