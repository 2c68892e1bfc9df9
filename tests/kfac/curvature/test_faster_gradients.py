import numpy as np
import tensorflow as tf

from kfac.curvature.faster_gradients import faster_gradients

v1 = tf.compat.v1


def test_equal_those_of_tensorflow_and_have_static_shapes(graph, session):
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
