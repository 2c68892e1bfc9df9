"""Points made of features, and features that make none."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.points import points_of

v1 = tf.compat.v1


def evaluated(tensor):
    with v1.Session() as session:
        return session.run(tensor)


def test_matrix_of_any_numbers_becomes_float32(graph):
    points = points_of(tf.constant([[1, 2], [3, 4]]))
    assert points.dtype == tf.float32
    np.testing.assert_array_equal(evaluated(points), [[1, 2], [3, 4]])


def test_dict_is_put_side_by_side_in_the_order_of_its_keys(graph):
    features = {"b": tf.constant([[1.0, 2.0]]), "a": tf.constant([3.0], tf.float64)}
    np.testing.assert_array_equal(evaluated(points_of(features)), [[3, 1, 2]])


def test_feature_columns_choose_and_convert(graph):
    city = tf.feature_column.categorical_column_with_vocabulary_list("city", ["x", "y"])
    columns = [tf.feature_column.numeric_column("a"), tf.feature_column.indicator_column(city)]
    features = {"a": tf.constant([3.0]), "b": tf.constant([9.0]), "city": tf.constant(["y"])}
    points = points_of(features, columns)
    with v1.Session() as session:
        session.run(v1.tables_initializer())
        np.testing.assert_array_equal(session.run(points), [[3, 0, 1]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.zeros([2, 3, 4]), r"features must have a row for each point.*\(2, 3, 4\)"),
        (lambda: tf.zeros([2]), r"features must have a row for each point"),
        (lambda: {"a": tf.zeros([2, 3, 4])}, "feature 'a' must have a row for each point"),
        (lambda: {"a": tf.constant(["x"])}, "feature 'a' must hold numbers, got string"),
        (lambda: {"a": tf.sparse.eye(2)}, "feature 'a' is a SparseTensor.*tf.sparse.to_dense"),
        (dict, "the dict of features is empty"),
    ],
)
def test_features_that_make_no_points_are_refused(graph, make, message):
    with pytest.raises(ValueError, match=rf"^KMeansClustering: {message}"):
        points_of(make())


def test_tensor_of_another_graph_is_refused():
    with tf.Graph().as_default():
        foreign = tf.zeros([2, 2])
    with tf.Graph().as_default():
        for features in (foreign, {"a": foreign}):
            with pytest.raises(ValueError, match=r"outside of the graph.*Make it inside of input"):
                points_of(features)
