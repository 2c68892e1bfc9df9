"""Choice of the first centers: which rows, how many, with which seed."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.centers import create_clusters, create_trained_variables
from replicate.canned.kmeans.initialization import build_initialization
from replicate.canned.kmeans.settings import KMeansSettings

v1 = tf.compat.v1
POINTS = np.random.default_rng(0).normal(size=[50, 2]).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def chosen(batches, graph_seed=1, **changes):
    """Chooses centers of batches in turn; returns the centers after each."""
    settings = KMeansSettings(**{"num_clusters": 3, **changes})
    with tf.Graph().as_default():
        v1.set_random_seed(graph_seed)
        points = v1.placeholder(tf.float32, [None, 2])
        clusters = create_clusters()
        variables = create_trained_variables(clusters, settings)
        operations = build_initialization(points, clusters, variables, settings)
        got = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(operations.shape).tolist() == [0]
            for batch in batches:
                session.run(operations.choose, {points: batch})
                got.append(session.run(clusters))
                assert session.run(operations.shape).tolist() == list(got[-1].shape)
                np.testing.assert_array_equal(session.run(variables.moving), got[-1])
            assert not session.run(operations.is_done)
            session.run(operations.finish)
            assert session.run(operations.is_done)
        return got


def rows_in(rows, points):
    return all((np.abs(points - row).max(axis=1) < 1e-6).any() for row in rows)


def test_random_centers_are_points_of_the_batch():
    (centers,) = chosen([POINTS], num_clusters=10, steps_per_iteration=2)
    assert centers.shape == (10, 2)
    assert rows_in(centers, POINTS)
    assert len(np.unique(centers, axis=0)) > 3


def test_small_batches_are_taken_whole_until_there_are_enough():
    first, second, third = chosen([POINTS[:4], POINTS[4:8], POINTS[8:]], num_clusters=10)
    np.testing.assert_array_equal(first, POINTS[:4])
    np.testing.assert_array_equal(second, POINTS[:8])
    np.testing.assert_array_equal(third[:8], POINTS[:8])
    assert third.shape == (10, 2)
    assert rows_in(third[8:], POINTS[8:])


def test_seed_chooses_the_rows_and_falls_back_to_that_of_the_graph():
    for initial in ("random", "kmeans_plus_plus"):

        def centers(graph_seed, seed, initial=initial):
            changes = {"num_clusters": 10, "initial_clusters": initial, "seed": seed}
            return chosen([POINTS], graph_seed, **changes)[0]

        np.testing.assert_array_equal(centers(1, None), centers(1, 1))
        assert not np.array_equal(centers(1, None), centers(2, None))
        assert not np.array_equal(centers(1, 1), centers(1, 2))
        assert centers(None, None).shape == (10, 2)


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_kmeans_plus_plus_takes_points_that_are_far_apart(metric):
    directions = unit(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], np.float32))
    points = np.repeat(100 * directions, 20, axis=0) + 0.1 * POINTS[np.arange(60) % 50]
    (centers,) = chosen([points], initial_clusters="kmeans_plus_plus", distance_metric=metric)
    expected = unit(points) if metric == "cosine" else points
    assert rows_in(centers, expected)
    nearest = (unit(centers) @ directions.T).argmax(axis=1)
    assert sorted(nearest) == [0, 1, 2]


def test_kmeans_plus_plus_refuses_a_batch_that_is_too_small():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Return a larger first batch"):
        chosen([POINTS[:2]], initial_clusters="kmeans_plus_plus")


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_given_centers_are_taken_as_they_are(metric):
    given = POINTS[:3]
    (centers,) = chosen([POINTS], initial_clusters=given, distance_metric=metric)
    np.testing.assert_allclose(centers, unit(given) if metric == "cosine" else given, rtol=1e-6)


def test_function_gets_the_points_and_the_number_of_missing_centers():
    missing = []

    def choose(inputs, k):
        (points,) = inputs
        missing.append(k)
        return points[: tf.minimum(k, 2)]

    first, second = chosen([POINTS[:9], POINTS[9:]], initial_clusters=choose)
    np.testing.assert_array_equal(first, POINTS[:2])
    np.testing.assert_array_equal(second, POINTS[[0, 1, 9]])
    assert len(missing) == 1
