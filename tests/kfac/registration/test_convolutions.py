import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import fisher_blocks
from kfac.fisher_blocks.conv import ConvForm
from kfac.fisher_factors.conv import Sampling
from kfac.patches.extraction import ConvGeometry

v1 = tf.compat.v1

ONES = (1, 1, 1, 1)


@pytest.fixture
def kernel(graph):
    return v1.get_variable("conv/w", [3, 2, 2, 4])


def images(channels=2):
    return tf.ones([2, 5, 5, channels])


def only(collection):
    (block,) = collection.get_blocks()
    return block


@pytest.mark.parametrize(
    ("kwargs", "form"),
    [
        ({}, ConvForm()),
        ({"approx": "kron_sua"}, ConvForm(uncorrelated=True)),
        ({"sub_sample_inputs": True}, ConvForm(sampling=Sampling(inputs=True))),
        ({"sub_sample_patches": True}, ConvForm(sampling=Sampling(patches=True))),
        ({"patch_mask": np.ones([3, 2, 2])}, ConvForm(patch_mask=(1.0,) * 12)),
        ({"approx": "diagonal", "patch_mask": [[[2.0, 1.0]] * 2] * 3}, (2.0, 1.0) * 6),
    ],
)
def test_forms(collection, kernel, kwargs, form):
    collection.register_conv2d(kernel, ONES, "SAME", images(), images(4), **kwargs)
    diagonal = kwargs.get("approx") == "diagonal"
    cls = fisher_blocks.ConvDiagonalFB if diagonal else fisher_blocks.ConvKFCBasicFB
    assert isinstance(only(collection), cls)
    assert only(collection).settings == (ConvGeometry((3, 2), (1, 1), "SAME"), form)


@pytest.mark.parametrize(
    ("given", "config", "inputs", "patches"),
    [
        ({}, {"sub_sample_inputs": True}, 2, None),
        ({"sub_sample_inputs": False}, {"sub_sample_inputs": True}, 7, None),
        ({}, {"sub_sample_patches": True, "patches_per_dimension": 1}, 7, 12),
        ({"sub_sample_patches": False}, {"sub_sample_patches": True}, 7, None),
    ],
)
def test_the_config_says_what_a_registration_leaves_open(
    graph, kernel, given, config, inputs, patches
):
    """Returns the number of images (of 7), or of patches of 12 numbers, in the average."""
    config = kfac.CurvatureConfig(input_fraction=0.2, **config)
    collection = kfac.LayerCollection(config=config)
    args = tf.ones([7, 5, 5, 2]), tf.ones([7, 5, 5, 4])
    collection.register_conv2d(kernel, ONES, "SAME", *args, **given)
    block = only(collection)
    block.instantiate_factors([[args[1]]], 0.1)
    count = block.input_factor.batch_moment().count
    assert count == (patches or inputs * 25)


def test_channels_first(collection, kernel):
    tensors = tf.ones([2, 2, 5, 5]), tf.ones([2, 4, 2, 3])
    collection.register_conv2d(kernel, (1, 1, 3, 2), "SAME", *tensors, "NCHW", (1, 1, 1, 2))
    expected = ConvGeometry((3, 2), (3, 2), "SAME", (1, 2), channels_first=True)
    assert only(collection).settings[0] == expected


def test_depthwise(collection, kernel):
    collection.register_depthwise_conv2d(kernel, images(), images(8), ONES, "SAME", rate=(2, 3))
    assert isinstance(only(collection), fisher_blocks.DepthwiseConvDiagonalFB)
    assert only(collection).settings[0].dilations == (2, 3)
    bias = v1.get_variable("conv/b", [8])
    other = v1.get_variable("other", [3, 2, 2, 4])
    with pytest.raises(ValueError, match=r"depthwise convolution 'other' with 2 parameters"):
        collection.register_depthwise_conv2d((other, bias), images(), images(8), ONES, "SAME")


def test_depthwise_kronecker_and_separable(collection, kernel):
    pointwise = v1.get_variable("pointwise/w", [1, 1, 8, 3])
    args = kernel, pointwise, images(), images(8), images(3), ONES, "SAME"
    collection.register_separable_conv2d(*args, approx="ekfac", depthwise_approx="kron")
    first, second = collection.get_blocks()
    assert isinstance(first, fisher_blocks.DepthwiseConvKFCBasicFB)
    assert isinstance(second, fisher_blocks.ConvEKFACFB)
    assert second.settings == (ConvGeometry((1, 1), (1, 1), "VALID"), ConvForm())
    args = v1.get_variable("third", [3, 2, 2, 4]), images(), images(8), ONES, "SAME"
    with pytest.raises(ValueError, match=r"'third': approx='ekfac'. Accepted are 'diag.*'kron'"):
        collection.register_depthwise_conv2d(*args, approx="ekfac")


def test_separable_keeps_both_or_none(collection, kernel):
    pointwise = v1.get_variable("pointwise/w", [1, 1, 8, 3])
    args = kernel, pointwise, images(), images(8), images(3), ONES, "SAME"
    with pytest.raises(ValueError, match=r"'pointwise/w': approx='full'"):
        collection.register_separable_conv2d(*args, approx="full")
    assert not collection.fisher_blocks
    collection.register_separable_conv2d(*args)
    with pytest.raises(ValueError, match=r"All towers must register the same layer"):
        collection.register_separable_conv2d(*args, approx="kron_sua", reuse=True)
    assert [block.num_registered_towers for block in collection.get_blocks()] == [1, 1]
    collection.register_separable_conv2d(*args, reuse=True)
    assert [block.num_registered_towers for block in collection.get_blocks()] == [2, 2]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"patch_mask": np.ones([3, 2])}, r"patch_mask has shape \(3, 2\). Accepted.*\(3, 2, 2\)"),
        ({"approx": "kron_sua", "sub_sample_inputs": True}, "'kron_sua' makes no patches"),
        ({"approx": "kron_reduce", "sub_sample_inputs": True}, "'kron_reduce' makes no patches"),
        ({"data_format": "NDHWC"}, "data_format='NDHWC'. Accepted are 'NHWC', 'NCHW'"),
        ({"dilations": (1, 1, 1)}, "dilations=.*4 positive ints"),
        ({"dilations": (1, 1, 1, 2)}, "dilations=.*4 positive ints"),
        ({"strides": (2, 2)}, "conv/w: strides=.*4 positive ints"),
        ({"padding": "FULL"}, "conv/w: padding='FULL'. Accepted are 'SAME' and 'VALID'"),
        ({"padding": [[0, 0], [1, 1]]}, "conv/w: padding=.*use tf.pad"),
    ],
)
def test_errors(collection, kernel, kwargs, message):
    settings = {"strides": ONES, "padding": "SAME", **kwargs}
    with pytest.raises(ValueError, match=message):
        collection.register_conv2d(kernel, inputs=images(), outputs=images(4), **settings)
    with pytest.raises(ValueError, match=r"convolution conv/w: its filter has shape \(3, 2, 2, 4"):
        collection.register_conv1d(kernel, (1, 1, 1), "SAME", images(), images())
    assert not collection.fisher_blocks
