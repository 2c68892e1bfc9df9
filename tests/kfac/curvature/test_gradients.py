"""Gradients that are computed faster than TensorFlow does."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature.backward_pass import as_sum, faster_gradients, mask_before_unpooling

v1 = tf.compat.v1


def bias_gradient(shape, weight, convolve, **kwargs):
    x = tf.constant(np.random.RandomState(0).randn(*shape))
    w, b = tf.constant(np.random.RandomState(1).randn(*weight)), tf.zeros(weight[-1:], tf.float64)
    outputs = tf.nn.bias_add(convolve(x, w), b, **kwargs)
    return v1.gradients(tf.reduce_sum(outputs**2), [w, b])[1]


def same(x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


def test_channels_may_be_first(graph):
    def swapped(x, w):
        return tf.transpose(same(x, w), [0, 3, 1, 2])

    gradient = bias_gradient([2, 4, 5, 3], [3, 3, 3, 2], swapped, data_format="NCHW")
    outputs = gradient.op.inputs[0]
    # What the filter's gradient sees: as if the convolution had its channels first.
    tf.raw_ops.Conv2DBackpropFilter(
        input=outputs,
        filter_sizes=[1, 1, 2, 2],
        out_backprop=outputs,
        strides=[1, 1, 1, 1],
        padding="SAME",
        data_format="NCHW",
    )
    found = as_sum(gradient)
    assert tf.get_static_value(found.op.inputs[1]).tolist() == [0, 2, 3]


def test_others_are_left_alone(graph):
    """Those of other layers, and one without the gradient of the filter beside it."""

    def three_axes(x, w):
        return tf.nn.conv3d(x, w, [1] * 5, "SAME")

    outputs = tf.nn.bias_add(same(tf.ones([2, 4, 4, 1]), tf.ones([3, 3, 1, 2])), tf.zeros([2]))
    others = [
        bias_gradient([4, 3], [3, 2], tf.matmul),
        bias_gradient([2, 3, 4, 5, 1], [1, 1, 1, 1, 2], three_axes),
        *v1.gradients(outputs, [outputs.op.inputs[1]]),
    ]
    for gradient in others:
        assert as_sum(gradient) is gradient


def test_faster_gradients_equal_those_of_tensorflow_and_have_static_shapes(graph, session):
    random = np.random.RandomState(0)
    x = v1.placeholder_with_default(random.randn(2, 4, 4, 3), [None, 4, 4, 3])
    filters = v1.get_variable("filters", initializer=random.randn(3, 3, 3, 2))
    bias = v1.get_variable("bias", initializer=np.zeros(2))
    table = v1.get_variable("table", initializer=random.randn(5, 2))
    unused = v1.get_variable("unused", initializer=1.0)
    outputs = tf.nn.bias_add(tf.nn.conv2d(x, filters, 1, "SAME"), bias)
    loss = tf.reduce_sum(outputs**2) + tf.reduce_sum(tf.gather(table, [0, 3]) ** 2)
    variables = [filters, bias, table, unused]
    given = v1.gradients(loss, variables)
    found, kept = zip(*faster_gradients(zip(given, variables, strict=True)), strict=True)
    assert list(kept) == variables
    assert found[1].op.type == "Sum"
    assert found[2] is given[2]
    assert found[3] is None
    assert [g.shape for g in found[:2]] == [v.shape for v in variables[:2]]
    session.run(v1.global_variables_initializer())
    for one, other in zip(*session.run([found[:2], given[:2]]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def network(padding="SAME", ties=False):
    """Returns two convolutions with ReLUs and max pools: weights, outputs before the ReLUs, sum."""
    x = np.random.RandomState(0).randn(2, 9, 8, 2)
    x = tf.constant(np.round(x) if ties else x, tf.float32)
    weights, outputs = [], []
    for seed in (1, 2):
        weight = tf.constant(np.random.RandomState(seed).randn(3, 3, 2, 2), tf.float32)
        bias = tf.constant([0.1, -0.2])
        weights.append((weight, bias))
        outputs.append(tf.nn.bias_add(tf.nn.conv2d(x, weight, 1, "SAME"), bias))
        x = tf.nn.max_pool2d(tf.nn.relu(outputs[-1]), 3, 2, padding)
    return weights, outputs, tf.reduce_sum(x**2)


def kinds(gradients):
    return [gradient.op.type for gradient in gradients]


@pytest.mark.parametrize(("padding", "ties"), [("SAME", True), ("VALID", False)])
def test_of_layer_outputs_and_variables(graph, session, padding, ties):
    weights, outputs, total = network(padding, ties)
    gradients = v1.gradients(total, outputs)
    found = mask_before_unpooling(gradients)
    assert kinds(gradients) == ["ReluGrad", "ReluGrad"]
    # What the second layer passes on is needed as it is.
    assert found[1] is gradients[1]
    assert kinds(found) == ["MaxPoolGrad", "ReluGrad"]
    values, expected = session.run([found, gradients])
    np.testing.assert_array_equal(values[0], expected[0])
    assert np.count_nonzero(expected[0])

    gradients = v1.gradients(total, tf.nest.flatten(weights))
    found = mask_before_unpooling(gradients)
    assert kinds(found) == kinds(gradients)
    kept = [new is old for new, old in zip(found, gradients, strict=True)]
    assert kept == [False, False, True, True]
    spread, at_maxima = found[0].op.inputs[2], found[1].op.inputs[0]
    assert (spread.op.type, at_maxima.op.type) == ("MaxPoolGrad", "ReluGrad")
    # Both are made of the same.
    assert spread.op.inputs[2] is at_maxima
    for value, expected in zip(*session.run([found, gradients]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_other_pools_are_left_alone(graph):
    weights, outputs, total = network()
    inner = tf.nn.relu(outputs[0])
    pooled_twice = tf.nn.max_pool2d(inner, 2, 2, "SAME")
    elsewhere = tf.reduce_sum(inner) + tf.reduce_sum(pooled_twice)
    average = tf.reduce_sum(tf.nn.avg_pool2d(tf.nn.relu(outputs[0]), 2, 2, "SAME"))
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))
    gradients = [
        *v1.gradients(elsewhere, [outputs[0]]),
        *v1.gradients(average, [weights[0][0]]),
        sparse,
        None,
    ]
    found = mask_before_unpooling(gradients)
    assert all(new is old for new, old in zip(found, gradients, strict=True))
    # The second layer's is needed for what is not among the gradients.
    first, second = v1.gradients(total, [weights[0][0], outputs[1]])
    assert first is not None
    assert mask_before_unpooling([second])[0] is second
