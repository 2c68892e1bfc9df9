"""Rows by ids: gathered and combined rows have one value and one gradient."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from replicate.canned.columns.column_lookup import look_up

v1 = tf.compat.v1
TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def pair(ids, weights=None):
    return SimpleNamespace(id_tensor=ids, weight_tensor=weights)


def test_gathered_rows_have_the_gradient_of_combined_ones(graph):
    table = v1.get_variable("table", initializer=TABLE)
    ids = tf.SparseTensor([[0, 0], [2, 0], [3, 0]], tf.constant([1, 0, 1], tf.int64), [4, 1])
    shape = v1.placeholder_with_default(np.array([4, 1]), [2])
    unknown = tf.SparseTensor(ids.indices, ids.values, shape)
    factors = np.arange(8, dtype=np.float32).reshape(4, 2)
    results = []
    for each in (ids, unknown):
        rows = look_up(table, pair(each), "mean")
        gradient = tf.convert_to_tensor(tf.gradients(rows.values * factors, table)[0])
        results.append((rows.values, gradient))
        assert (rows.layer is None) == (each is unknown)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for values, gradient in session.run(results):
            np.testing.assert_allclose(values, [[3, 4], [0, 0], [1, 2], [3, 4]])
            np.testing.assert_allclose(gradient, [[4, 5], [6, 8], [0, 0]])


def test_ids_of_a_sequence_are_combined(graph):
    ids = tf.SparseTensor([[0, 0, 0], [0, 1, 0]], tf.constant([0, 2], tf.int64), [2, 2, 1])
    rows = look_up(tf.Variable(TABLE), pair(ids), "sum")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(rows.values), [[6, 8], [0, 0]])
