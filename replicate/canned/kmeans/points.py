"""Points to cluster: one float32 matrix, made of the features of a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Tensor

v1 = tf.compat.v1


def points_of(features: Nest, feature_columns: Sequence[Any] | None = None) -> Tensor:
    """Returns the points of a batch as a matrix.

    Args:
      features: Numbers [N, k]; or a dict of such features, in which [N] stands for [N, 1].
      feature_columns: Columns of a dict that make the points. None: all features of a dict, side by
        side in the order of their keys.

    Returns:
      float32 Tensor [N, k].

    Raises:
      ValueError: A feature is not a matrix, is sparse, or belongs to another graph; or a dict is
        empty.
    """
    if not isinstance(features, Mapping):
        return _matrix(features, "features", expand=False)
    for key, value in features.items():
        _check_graph(value, _named(key))
    if feature_columns is not None:
        return v1.feature_column.input_layer(features, feature_columns)
    if not features:
        raise ValueError("KMeansClustering: the dict of features is empty. Return at least one.")
    return tf.concat([_matrix(features[key], _named(key)) for key in sorted(features)], axis=1)


def _named(key: str) -> str:
    return f"feature {key!r}"


def _matrix(value: Any, name: str, expand: bool = True) -> Tensor:
    """Returns a feature as a float32 matrix; `expand` makes a column of a vector."""
    if isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        raise ValueError(
            f"KMeansClustering: {name} is a {type(value).__name__}, and a point needs all its "
            "numbers. Pass feature_columns, or make it dense with tf.sparse.to_dense or to_tensor."
        )
    _check_graph(value, name)
    tensor = tf.convert_to_tensor(value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise ValueError(
            f"KMeansClustering: {name} must hold numbers, got {tensor.dtype.name}. Pass "
            "feature_columns that turn it into numbers."
        )
    if expand and tensor.shape.rank == 1:
        tensor = tensor[:, tf.newaxis]
    if tensor.shape.rank not in (None, 2):
        raise ValueError(
            f"KMeansClustering: {name} must have a row for each point, [N, k], got shape "
            f"{tensor.shape}. Reshape it in input_fn."
        )
    return tf.cast(tensor, tf.float32)


def _check_graph(value: Any, name: str) -> None:
    """Raises unless a Tensor belongs to the default graph."""
    if not isinstance(value, tf.Tensor):
        return
    if getattr(value, "graph", None) is not v1.get_default_graph():
        raise ValueError(
            f"KMeansClustering: {name} is a Tensor that was made outside of the graph of the "
            "model. Make it inside of input_fn, which each call of train calls anew."
        )
