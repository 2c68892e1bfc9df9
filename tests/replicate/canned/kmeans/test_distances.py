"""Distances against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.distances import all_distances, nearest_centers, normalized_for
from replicate.canned.kmeans.settings import KMeansSettings

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=[7, 3]).astype(np.float32)
CENTERS = RANDOM.normal(size=[4, 3]).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def squared(points, centers):
    return ((points[:, None] - centers) ** 2).sum(-1)


def cosine(points, centers):
    return 1 - unit(points) @ unit(centers).T


def evaluated(settings, points, centers):
    points, centers = (normalized_for(settings, tf.constant(rows)) for rows in (points, centers))
    nearest = nearest_centers(points, centers, settings)
    with v1.Session() as session:
        return session.run(
            [all_distances(points, centers, settings), nearest.indices, nearest.distances]
        )


@pytest.mark.parametrize(
    ("metric", "formula"), [("squared_euclidean", squared), ("cosine", cosine)]
)
def test_distances_against_numpy(graph, metric, formula):
    every, indices, distances = evaluated(
        KMeansSettings(3, distance_metric=metric), POINTS, CENTERS
    )
    expected = formula(POINTS, CENTERS)
    np.testing.assert_allclose(every, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(indices, expected.argmin(axis=1))
    assert indices.dtype == np.int64
    np.testing.assert_allclose(distances, expected.min(axis=1), rtol=1e-5, atol=1e-6)


def test_distance_to_itself_is_never_negative(graph):
    far = 1000 + 0.1 * POINTS
    every, _, distances = evaluated(KMeansSettings(7), far, far)
    assert min(every.min(), distances.min()) >= 0
    assert distances.max() < 1


def test_batch_without_points_has_no_distances(graph):
    every, indices, distances = evaluated(KMeansSettings(3), POINTS[:0], CENTERS)
    assert every.shape == (0, 4)
    assert indices.shape == distances.shape == (0,)
