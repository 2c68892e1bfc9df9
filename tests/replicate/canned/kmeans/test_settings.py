"""Arguments of K-means, and points made of features: what is kept, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.model import points_of
from replicate.canned.kmeans.settings import kmeans_settings

v1 = tf.compat.v1
DEFAULTS = {
    "num_clusters": 3,
    "initial_clusters": "random",
    "distance_metric": "squared_euclidean",
    "seed": None,
    "use_mini_batch": True,
    "mini_batch_steps_per_iteration": 1,
    "kmeans_plus_plus_num_retries": 2,
    "relative_tolerance": None,
    "feature_columns": None,
}


def settings_of(**changes):
    return kmeans_settings(**{**DEFAULTS, **changes})


def test_settings_are_converted():
    changes = {"mini_batch_steps_per_iteration": 5}
    assert settings_of(**changes).steps_per_iteration == 5
    assert settings_of(**changes, use_mini_batch=False).steps_per_iteration == 1
    settings = settings_of(num_clusters=None, initial_clusters=[[1, 2], [3, 4]])
    assert settings.num_clusters == 2
    assert settings.initial_clusters.dtype == np.float32
    settings = settings_of(initial_clusters=tf.constant([[1.0, 2.0]]))
    np.testing.assert_array_equal(settings.initial_clusters, [[1, 2]])
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"is a Tensor of a graph, 'Const:0'.*Pass an array"),
    ):
        settings_of(initial_clusters=tf.constant([[1.0]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_clusters": 0}, "num_clusters must be an int ≥ 1, got 0"),
        ({"mini_batch_steps_per_iteration": -1}, "mini_batch_steps_per_iteration must be an int"),
        ({"distance_metric": "cos"}, "one of 'squared_euclidean', 'cosine'; got 'cos'"),
        ({"initial_clusters": "best"}, "one of 'random', 'kmeans_plus_plus', an array .* 'best'"),
        ({"initial_clusters": [1.0, 2.0]}, r"a row for each center, got shape \[2\]"),
    ],
)
def test_wrong_argument_is_refused(changes, message):
    with pytest.raises(ValueError, match=rf"^KMeansClustering: .*{message}"):
        settings_of(**changes)


def test_points_are_float32_in_the_order_of_keys(graph, evaluate):
    points = points_of(tf.constant([[1, 2], [3, 4]]))
    assert points.dtype == tf.float32
    np.testing.assert_array_equal(evaluate(points), [[1, 2], [3, 4]])
    features = {"b": tf.constant([[1.0, 2.0]]), "a": tf.constant([3.0], tf.float64)}
    np.testing.assert_array_equal(evaluate(points_of(features)), [[3, 1, 2]])
    assert settings_of(feature_columns=[]).feature_columns is None


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


def test_tensor_of_another_graph_is_refused(graph):
    foreign = tf.zeros([2, 2])
    for features in (foreign, {"a": foreign}):
        with (
            tf.Graph().as_default(),
            pytest.raises(ValueError, match=r"outside of the graph.*Make it inside of input"),
        ):
            points_of(features)
