import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature.pooled_gradients import mask_before_unpooling

v1 = tf.compat.v1


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


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("ties", [False, True])
def test_of_layer_outputs(graph, session, padding, ties):
    _, outputs, total = network(padding, ties)
    gradients = v1.gradients(total, outputs)
    found = mask_before_unpooling(gradients)
    assert kinds(gradients) == ["ReluGrad", "ReluGrad"]
    # What the second layer passes on is needed as it is.
    assert found[1] is gradients[1]
    assert kinds(found) == ["MaxPoolGrad", "ReluGrad"]
    values, expected = session.run([found, gradients])
    np.testing.assert_array_equal(values[0], expected[0])
    assert np.count_nonzero(expected[0])


def test_of_variables(graph, session):
    weights, _, total = network()
    gradients = v1.gradients(total, tf.nest.flatten(weights))
    found = mask_before_unpooling(gradients)
    assert kinds(found) == kinds(gradients)
    assert [new is old for new, old in zip(found, gradients, strict=True)] == [False] * 2 + [
        True
    ] * 2
    spread, at_maxima = found[0].op.inputs[2], found[1].op.inputs[0]
    assert (spread.op.type, at_maxima.op.type) == ("MaxPoolGrad", "ReluGrad")
    # Both are made of the same.
    assert spread.op.inputs[2] is at_maxima
    for value, expected in zip(*session.run([found, gradients]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_in_a_branch(graph, session):
    _, outputs, total = network()
    condition = v1.placeholder_with_default(True, [])

    def both():
        gradients = v1.gradients(total, outputs)
        return gradients[0], mask_before_unpooling(gradients)[0]

    expected, found = session.run(
        tf.cond(condition, both, lambda: (tf.zeros_like(outputs[0]),) * 2)
    )
    np.testing.assert_array_equal(found, expected)


def test_others_are_left_alone(graph):
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
