import numpy as np
import pytest
import tensorflow as tf

from kfac.update.weight_decay import add_weight_decay

v1 = tf.compat.v1


@pytest.mark.parametrize("use_resource", [True, False])
def test_all_weights_decay(graph, session, use_resource):
    with v1.variable_scope("", use_resource=use_resource):
        dense = v1.get_variable("dense", initializer=tf.constant([1.0, -2.0], tf.float64))
        table = v1.get_variable("table", initializer=tf.constant([[1.0], [2.0], [4.0]]))
    row = tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1]), tf.constant([3, 1]))
    vectors = [tf.constant([3.0, 3.0], tf.float64), row]
    session.run(v1.global_variables_initializer())
    found = session.run(add_weight_decay(vectors, [dense, table], lambda: 0.1))
    np.testing.assert_allclose(found[0], [3.1, 2.8], rtol=1e-15)
    np.testing.assert_allclose(found[1], [[0.1], [5.2], [0.4]], rtol=1e-6)


def test_without_decay_vectors_stay_what_they_are(graph):
    row = tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1]), tf.constant([3, 1]))
    assert add_weight_decay([row], [v1.get_variable("table", [3, 1])], None) == [row]
