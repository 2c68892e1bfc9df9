import types

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature.block_products import multiply_blocks

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    return [v1.get_variable(name, [2]) for name in ("w", "b", "other")]


@pytest.fixture
def blocks(variables):
    w, b, other = variables
    return [types.SimpleNamespace(params=(w, b)), types.SimpleNamespace(params=other)]


def multiply(block, vector):
    if isinstance(block.params, tuple):
        w, b = vector
        return 2 * w, 3 * b
    return 5 * vector


def test_products_come_in_the_order_of_the_vectors(blocks, variables, session):
    w, b, other = variables
    pairs = [(tf.ones([2]), v) for v in (other, b, w)]
    found = multiply_blocks(blocks, ["", ""], pairs, multiply)
    assert [v for _, v in found] == [other, b, w]
    np.testing.assert_array_equal(session.run([p for p, _ in found]), [[5, 5], [3, 3], [2, 2]])


def test_each_block_is_multiplied_on_its_device(blocks, variables):
    pairs = [(tf.ones([2]), v) for v in variables]
    found = multiply_blocks(blocks, ["/cpu:1", "/cpu:2"], pairs, multiply)
    assert [p.device for p, _ in found] == ["/device:CPU:1", "/device:CPU:1", "/device:CPU:2"]


def test_sparse_vectors_pass_through(blocks, variables, session):
    *_, other = variables
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]))
    ((product, _),) = multiply_blocks(blocks[1:], [""], [(sparse, other)], lambda _, v: v)
    assert product is sparse


def test_missing_vectors(blocks, variables):
    with pytest.raises(ValueError, match=r"there are no vectors for w, other\. Pass"):
        multiply_blocks(blocks, ["", ""], [(tf.ones([2]), variables[1])], multiply)
