import pytest
import tensorflow as tf

from kfac import fisher_blocks

v1 = tf.compat.v1


@pytest.mark.parametrize("method", ["register_scale_and_shift", "register_layer_norm"])
def test_scale_and_shift(collection, method):
    x = tf.ones([4, 3])
    scale, shift = v1.get_variable("scale", [3]), v1.get_variable("shift", [3])
    getattr(collection, method)((scale, shift), x, x)
    assert isinstance(collection.get_blocks()[0], fisher_blocks.ScaleAndShiftFullFB)
    other = v1.get_variable("other", [3])
    getattr(collection, method)(other, x, x, approx="diagonal")
    assert isinstance(collection.get_blocks()[1], fisher_blocks.ScaleAndShiftDiagonalFB)
