"""Distances from points to centers: all of them, and those to the nearest."""

import dataclasses

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.kmeans.settings import KMeansSettings


@dataclasses.dataclass(frozen=True)
class Nearest:
    """The nearest center of each point.

    Attributes:
      indices: int64 [N].
      distances: float32 [N], squared for Euclidean distance, 1 − cosine for the other.
    """

    indices: Tensor
    distances: Tensor


def normalized_for(settings: KMeansSettings, rows: Tensor) -> Tensor:
    """Returns rows with norm 1 for cosine distance, else unchanged."""
    return tf.math.l2_normalize(rows, axis=1) if settings.is_cosine else rows


def all_distances(points: Tensor, centers: Tensor, settings: KMeansSettings) -> Tensor:
    """Returns the distance of each point [N, k] to each center, [N, num_clusters].

    Points and centers [num_clusters, k] are of norm 1 for cosine distance.
    """
    products = tf.matmul(points, centers, transpose_b=True)
    if settings.is_cosine:
        return 1.0 - products
    squares = tf.reduce_sum(points**2, axis=1, keepdims=True) + tf.reduce_sum(centers**2, axis=1)
    # Rounding must not make the distance of a point from itself negative: it has a square root.
    return tf.maximum(squares - 2.0 * products, 0.0)


def nearest_centers(points: Tensor, centers: Tensor, settings: KMeansSettings) -> Nearest:
    """Returns the nearest center of each point, without a matrix of all distances.

    Points and centers are as for `all_distances`. N may be 0, as in a tower without rows.
    """
    # The operation refuses an empty matrix, so a row is added and its result dropped.
    padded = tf.pad(points, [[0, 1], [0, 0]])
    indices, squares = tf.raw_ops.NearestNeighbors(points=padded, centers=centers, k=1)
    squares = tf.maximum(squares[:-1, 0], 0.0)
    # Vectors of norm 1 with cosine c have the squared distance 2 - 2c.
    return Nearest(indices[:-1, 0], 0.5 * squares if settings.is_cosine else squares)
