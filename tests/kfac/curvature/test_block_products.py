import contextlib
import types

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature.block_products import product_or_identity
from kfac.linalg.damped_functions import INVERSE, ITSELF, Cholesky

v1 = tf.compat.v1


def block_with(has_inverse, has_bias, multiply):
    """A block with one factor, whose matrix is 4 I before it has an inverse."""
    return types.SimpleNamespace(
        has_inverse=lambda: tf.identity(has_inverse),
        identity_eigenvalue=lambda: 4.0,
        has_bias=has_bias,
        factors=[types.SimpleNamespace(inverses=["inverse"])],
        multiply_function=multiply,
        product_or_identity=lambda *args: None,
    )


@pytest.mark.parametrize(
    ("control_flow", "function", "factor"),
    [("v1", ITSELF, 4.0), ("v2", INVERSE, 0.25), ("function", Cholesky(), 2.0)],
)
def test_product_of_a_block_without_inverse(graph, session, control_flow, function, factor):
    """In a graph only the product that is needed is computed."""
    has_inverse = v1.placeholder(tf.bool, [])
    products = v1.get_variable("products", initializer=0, use_resource=True)

    def multiply(*args):
        assert args[0] == function
        with v1.control_dependencies([products.assign_add(1)]):
            return tf.zeros([2]), tf.zeros([1])

    block = block_with(has_inverse, True, multiply)

    def build():
        vector = tf.constant([1.0, 2.0]), tf.constant([3.0])
        return product_or_identity(block, function, vector)

    if control_flow == "function":
        build = tf.function(build)
    with v1_control_flow() if control_flow == "v1" else contextlib.nullcontext():
        w, b = build()
    assert (w.shape, b.shape) == ([2], [1])
    session.run(v1.global_variables_initializer())
    for known in (False, True, False):
        found = np.hstack(session.run([w, b], {has_inverse: known}))
        np.testing.assert_allclose(found, np.zeros(3) if known else factor * np.array([1, 2, 3]))
    assert session.run(products) == (3 if control_flow == "function" else 1)


@contextlib.contextmanager
def v1_control_flow():
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


def test_sparse_product_of_a_block_without_inverse(graph, session):
    vector = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2]))
    block = block_with(tf.constant(False), False, lambda *args: vector)
    found = session.run(product_or_identity(block, INVERSE, vector))
    np.testing.assert_array_equal(found.values, [[0.25, 0.25]])
    np.testing.assert_array_equal(found.indices, [1])
