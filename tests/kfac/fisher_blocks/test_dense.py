import tensorflow as tf

import kfac
from kfac.fisher_blocks import FullyConnectedKFACBasicFB
from kfac.fisher_factors import FullyConnectedKroneckerFactor

v1 = tf.compat.v1


def make(collection, name, x):
    block = FullyConnectedKFACBasicFB(collection, v1.get_variable(name, [3, 2]))
    gradient = tf.ones([4, 2])
    block.register_additional_tower(x, tf.ones([4, 2]))
    block.instantiate_factors([[gradient]], 0.1)
    return block


def test_factors(graph):
    block = make(kfac.LayerCollection(), "fc/w", tf.ones([4, 3]))
    assert all(isinstance(factor, FullyConnectedKroneckerFactor) for factor in block.factors)
    assert [factor.name for factor in block.factors] == ["fc/w/input", "fc/w/output"]
    assert [factor.dimension for factor in block.factors] == [3, 2]
    assert (block.replications(), block.settings) == (1, ())


def test_layers_with_the_same_input_share_its_factor_but_not_its_inverse(graph):
    collection, x = kfac.LayerCollection(), tf.ones([4, 3])
    first, second = make(collection, "a/w", x), make(collection, "b/w", x)
    assert first.input_factor is second.input_factor
    assert first.output_factor is not second.output_factor
    first.input_factor.instantiate_inv_variables()
    names = [variable.op.name for variable in first.input_factor.get_inv_vars()]
    assert names[0] == "kfac/a/w/input/inverse"
    assert names[2] == "kfac/b/w/input/inverse"
