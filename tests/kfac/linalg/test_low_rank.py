import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.linalg import low_rank
from kfac.linalg.low_rank import cheaper_row_product

v1 = tf.compat.v1

ROWS, INPUTS, OUTPUTS = 2, 12, 10
SHAPES = {"w": [INPUTS, OUTPUTS], "b": [OUTPUTS]}


def dense_layer(rows=ROWS, bias_add=False):
    """The inputs of a layer, and its gradients of (weight, bias)."""
    x = v1.placeholder_with_default(tf.ones([rows or 3, INPUTS]), [rows, INPUTS])
    weight, bias = (v1.get_variable(name, shape) for name, shape in SHAPES.items())
    product = tf.matmul(x, weight)
    outputs = tf.nn.bias_add(product, bias) if bias_add else product + bias
    return x, tuple(v1.gradients(tf.reduce_sum(tf.square(outputs)), [weight, bias]))


@pytest.mark.parametrize("bias_add", [True, False])
def test_is_the_gradient(graph, session, bias_add):
    _, gradient = dense_layer(bias_add=bias_add)
    found = cheaper_row_product(gradient)
    session.run(v1.global_variables_initializer())
    (weight, bias), (x, d) = session.run([gradient, found])
    assert x.shape == (ROWS, INPUTS + 1)
    np.testing.assert_allclose(x.T @ d, np.vstack([weight, bias]), rtol=1e-6)


def test_gradient_without_bias_behind_identities(graph, session):
    x, (weight, _) = dense_layer()
    found = cheaper_row_product(tf.ensure_shape(tf.identity(weight), SHAPES["w"]))
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(*session.run([found.x, x]))


def test_control_dependencies_of_the_gradient_are_kept(graph, session):
    _, (weight, _) = dense_layer()
    with v1.control_dependencies([tf.debugging.assert_equal(tf.shape(weight)[0], 1)]):
        checked = tf.identity(weight)
    found = cheaper_row_product(checked)
    session.run(v1.global_variables_initializer())
    for part in found:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(part)


@pytest.mark.parametrize("rows", [None, INPUTS])
def test_many_rows_or_an_unknown_number(graph, rows):
    _, gradient = dense_layer(rows)
    assert cheaper_row_product(gradient) is None


def test_cost_at_the_limit(graph):
    """For 8 x 8 it is at r · 3 · 64 = 2 · 512 multiplications, so at 5.3 rows."""
    for rows, is_cheaper in ((5, True), (6, False)):
        x, d = tf.zeros([rows, 8]), tf.zeros([rows, 8])
        found = cheaper_row_product(tf.matmul(x, d, transpose_a=True))
        assert (found is not None) == is_cheaper


@pytest.mark.parametrize(
    "other",
    [
        lambda weight, bias: (2 * weight, bias),
        lambda weight, bias: (weight, 2 * bias),
        lambda weight, bias: (tf.add_n([weight, weight]), bias),
        lambda weight, bias: (weight, tf.reduce_sum(weight, axis=0)),
        lambda weight, bias: tf.matmul(weight, tf.zeros([OUTPUTS, 1])),
    ],
)
def test_other_gradients_are_not_row_products(graph, other):
    _, gradient = dense_layer()
    assert cheaper_row_product(other(*gradient)) is None


@pytest.mark.parametrize("momentum_type", ["regular", "adam"])
def test_steps_are_the_same(monkeypatch, momentum_type):
    """As without it."""
    weights = []
    for limit in (cheaper_row_product, lambda gradient: None):
        monkeypatch.setattr(low_rank, "cheaper_row_product", limit)
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(0)
            random = np.random.RandomState(0)
            x = tf.constant(random.randn(ROWS, INPUTS))
            y = tf.constant(random.randn(ROWS, OUTPUTS))
            params = tuple(
                v1.get_variable(name, initializer=tf.constant(random.randn(*shape)))
                for name, shape in SHAPES.items()
            )
            outputs = tf.matmul(x, params[0]) + params[1]
            layers = kfac.LayerCollection()
            layers.register_fully_connected(params, x, outputs)
            layers.register_squared_error_loss(outputs, targets=y)
            optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=0.1,
                damping=0.1,
                layer_collection=layers,
                momentum_type=momentum_type,
                norm_constraint=0.1,
                estimation_mode="empirical",
            )
            train = optimizer.minimize(tf.reduce_mean(tf.reduce_sum((outputs - y) ** 2, axis=1)))
            session.run(v1.global_variables_initializer())
            for _ in range(5):
                session.run(train)
            weights.append(session.run(params))
    for with_it, without in zip(*weights, strict=True):
        np.testing.assert_allclose(with_it, without, rtol=1e-10, atol=1e-12)
