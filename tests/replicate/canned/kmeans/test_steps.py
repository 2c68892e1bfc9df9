"""Moves of the centers against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.centers import assign_all, create_clusters, create_trained_variables
from replicate.canned.kmeans.settings import KMeansSettings
from replicate.canned.kmeans.steps import CenterMoves, cluster_sums

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
CENTERS = RANDOM.normal(size=[3, 2]).astype(np.float32)
BATCHES = RANDOM.normal(size=[5, 6, 2]).astype(np.float32)
INDICES = np.array([0, 2, 2, 0, 2, 2])  # Center 1 has no points.
HAS = [np.equal(INDICES, k) for k in range(3)]


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


def test_sums_and_numbers_of_points(graph):
    sums = cluster_sums(tf.constant(BATCHES[0]), tf.constant(INDICES), 3)
    with v1.Session() as session:
        np.testing.assert_allclose(session.run(sums), sums_of(BATCHES[0]), rtol=1e-6)


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_full_batch_moves_centers_to_the_mean(graph, metric):
    got = centers_after_each_step({"use_mini_batch": False, "distance_metric": metric})
    for centers, batch in zip(got, BATCHES, strict=True):
        sums = sums_of(batch)
        expected = sums[:, :2] / (sums[:, 2:] + 1e-6)
        if metric == "cosine":
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


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_centers_move_after_each_iteration_of_two_steps(graph, metric):
    got = centers_after_each_step({"steps_per_iteration": 2, "distance_metric": metric})
    moving, centers, counts = CENTERS.astype(np.float64), CENTERS, np.zeros([3, 1])
    for number, batch in enumerate(BATCHES):
        sums = sums_of(batch)
        with np.errstate(invalid="ignore"):
            moved = (moving * counts + sums[:, :2]) / (counts + sums[:, 2:])
        moving = np.where(sums[:, 2:] > 0, moved, moving)
        counts += sums[:, 2:]
        if number % 2:
            centers = unit(moving) if metric == "cosine" else moving
            counts = np.zeros([3, 1])
        np.testing.assert_allclose(got[number], centers, rtol=1e-5)
