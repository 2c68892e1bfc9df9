import pytest
import tensorflow as tf

import kfac
from kfac.conv_geometry import ConvGeometry
from kfac.fisher_blocks import ConvKFCBasicFB
from kfac.fisher_factors import ConvInputKroneckerFactor, ConvOutputKroneckerFactor

v1 = tf.compat.v1


@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry((3, 3), (1, 1), "VALID"),
        ConvGeometry((3, 3), (2, 2), "SAME"),
        ConvGeometry((3, 3), (1, 1), "VALID", (2, 2)),
    ],
)
def test_factors_and_locations(graph, geometry):
    images = tf.ones([2, 9, 8, 4])
    kernel = v1.get_variable("conv/w", [3, 3, 4, 5])
    bias = v1.get_variable("conv/b", [5])
    outputs = tf.nn.conv2d(
        images, kernel, geometry.strides, geometry.padding, dilations=geometry.dilations
    )
    block = ConvKFCBasicFB(kfac.LayerCollection(), (kernel, bias), geometry)
    block.register_additional_tower(images, outputs)
    block.instantiate_factors([[outputs]], 0.1)
    block.check_shapes()
    assert isinstance(block.input_factor, ConvInputKroneckerFactor)
    assert isinstance(block.output_factor, ConvOutputKroneckerFactor)
    assert [factor.dimension for factor in block.factors] == [37, 5]
    assert block.replications() == outputs.shape[1] * outputs.shape[2]
    assert block.settings == (geometry,)
    assert block.describe() == "kron 37x37 (x) 5x5"
