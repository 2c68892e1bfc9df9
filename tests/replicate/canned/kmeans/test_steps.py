"""Centers of K-means: first choice, distances and moves, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.centers import assign_all, create_clusters, create_trained_variables
from replicate.canned.kmeans.distances import all_distances, nearest_centers, normalized_for
from replicate.canned.kmeans.initialization import build_initialization
from replicate.canned.kmeans.settings import KMeansSettings
from replicate.canned.kmeans.steps import CenterMoves, cluster_sums

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
CENTERS = RANDOM.normal(size=[3, 2]).astype(np.float32)
BATCHES = RANDOM.normal(size=[5, 6, 2]).astype(np.float32)
INDICES = np.array([0, 2, 2, 0, 2, 2])  # Center 1 has no points.
HAS = [np.equal(INDICES, k) for k in range(3)]
THREE_POINTS = RANDOM.normal(size=[7, 3]).astype(np.float32)
TWO_CENTERS = RANDOM.normal(size=[4, 3]).astype(np.float32)
POINTS = np.random.default_rng(0).normal(size=[50, 2]).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sums_of(batch):
    return np.array([[*batch[HAS[k]].sum(axis=0), HAS[k].sum()] for k in range(3)])


def centers_after_each_step(changes):
    """Makes a step with each batch; returns the centers and the global step after each."""
    settings = KMeansSettings(3, **changes)
    step = v1.train.create_global_step()
    clusters = create_clusters()
    variables = create_trained_variables(clusters, settings)
    points = v1.placeholder(tf.float32, [None, 2])
    sums = cluster_sums(points, tf.constant(INDICES), 3)
    optimizer = CenterMoves(clusters, variables, settings)
    train_op = optimizer.apply_gradients([(sums, clusters)], step)
    begin = assign_all(variables, clusters, tf.constant(CENTERS))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(begin)
        got = []
        for batch in BATCHES:
            session.run(train_op, {points: batch})
            got.append(session.run(clusters))
        assert session.run(step) == len(BATCHES)
    return got


def test_full_batch_moves_centers_to_the_mean(graph):
    got = centers_after_each_step({"use_mini_batch": False, "distance_metric": "cosine"})
    for centers, batch in zip(got, BATCHES, strict=True):
        sums = sums_of(batch)
        expected = sums[:, :2] / (sums[:, 2:] + 1e-6)
        expected[[0, 2]] = unit(expected[[0, 2]])
        np.testing.assert_allclose(centers, expected, rtol=1e-5)


def test_mini_batch_moves_centers_towards_the_mean(graph):
    got = centers_after_each_step({})
    expected, counts = CENTERS.astype(np.float64), np.ones([3, 1])
    for centers, batch in zip(got, BATCHES, strict=True):
        sums = sums_of(batch)
        expected = (expected * counts + sums[:, :2]) / (counts + sums[:, 2:])
        counts += sums[:, 2:]
        np.testing.assert_allclose(centers, expected, rtol=1e-5)


def test_centers_move_after_each_iteration_of_two_steps(graph):
    got = centers_after_each_step({"steps_per_iteration": 2, "distance_metric": "cosine"})
    moving, centers, counts = CENTERS.astype(np.float64), CENTERS, np.zeros([3, 1])
    for number, batch in enumerate(BATCHES):
        sums = sums_of(batch)
        with np.errstate(invalid="ignore"):
            moved = (moving * counts + sums[:, :2]) / (counts + sums[:, 2:])
        moving = np.where(sums[:, 2:] > 0, moved, moving)
        counts += sums[:, 2:]
        if number % 2:
            centers = unit(moving)
            counts = np.zeros([3, 1])
        np.testing.assert_allclose(got[number], centers, rtol=1e-5)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, {"Variable": np.ones(3, np.int64)}),
        (7, {"Variable": np.zeros(3, np.int64), "clusters_updated": np.zeros(0, np.float32),
         "update_in_steps": np.int64(7)}),
    ],
)  # fmt: skip
def test_variables_have_the_names_of_tf_estimator(graph, steps, expected):
    clusters = create_clusters()
    create_trained_variables(clusters, KMeansSettings(3, steps_per_iteration=steps))
    expected = {**expected, "clusters": np.zeros(0, np.float32), "initialized": np.False_}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        got = {each.op.name: session.run(each) for each in v1.trainable_variables()}
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
        assert got[name].dtype == value.dtype


def evaluated(settings, points, centers):
    points, centers = (normalized_for(settings, tf.constant(rows)) for rows in (points, centers))
    nearest = nearest_centers(points, centers, settings)
    with v1.Session() as session:
        return session.run(
            [all_distances(points, centers, settings), nearest.indices, nearest.distances]
        )


def test_distances_of_points_to_themselves_and_of_no_points(graph):
    far = 1000 + 0.1 * THREE_POINTS
    every, _, distances = evaluated(KMeansSettings(7), far, far)
    assert min(every.min(), distances.min()) >= 0
    assert distances.max() < 1
    every, indices, distances = evaluated(KMeansSettings(3), THREE_POINTS[:0], TWO_CENTERS)
    assert every.shape == (0, 4)
    assert indices.shape == distances.shape == (0,)


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


def test_small_batches_are_taken_whole_until_there_are_enough():
    batches = [POINTS[:4], POINTS[4:8], POINTS[8:]]
    first, second, third = chosen(batches, num_clusters=10, steps_per_iteration=2)
    np.testing.assert_array_equal(first, POINTS[:4])
    np.testing.assert_array_equal(second, POINTS[:8])
    np.testing.assert_array_equal(third[:8], POINTS[:8])
    assert third.shape == (10, 2)
    assert rows_in(third[8:], POINTS[8:])


def test_seed_chooses_the_rows_and_falls_back_to_that_of_the_graph():
    for initial in ("random", "kmeans_plus_plus"):
        own, of_graph, other_graph, other, free = (
            chosen([POINTS], graph, num_clusters=10, initial_clusters=initial, seed=seed)[0]
            for graph, seed in [(1, 1), (1, None), (2, None), (1, 2), (None, None)]
        )
        np.testing.assert_array_equal(of_graph, own)
        assert not np.array_equal(of_graph, other_graph)
        assert not np.array_equal(own, other)
        assert free.shape == (10, 2)


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_kmeans_plus_plus_takes_points_that_are_far_apart(metric):
    directions = unit(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], np.float32))
    points = np.repeat(100 * directions, 20, axis=0) + 0.1 * POINTS[np.arange(60) % 50]
    (centers,) = chosen([points], initial_clusters="kmeans_plus_plus", distance_metric=metric)
    expected = unit(points) if metric == "cosine" else points
    assert rows_in(centers, expected)
    nearest = (unit(centers) @ directions.T).argmax(axis=1)
    assert sorted(nearest) == [0, 1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Return a larger first batch"):
        chosen([points[:2]], initial_clusters="kmeans_plus_plus")


def test_given_centers_are_taken_and_normalized():
    (centers,) = chosen([POINTS], initial_clusters=POINTS[:3], distance_metric="cosine")
    np.testing.assert_allclose(centers, unit(POINTS[:3]), rtol=1e-6)


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
