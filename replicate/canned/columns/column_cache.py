"""Features and what columns made of them, each computed once.

`ColumnCache` is the transformation cache that the methods of feature columns ask for tensors. A raw
feature becomes a Tensor of rank 2 or more, or a SparseTensor.
"""

from collections.abc import Hashable, Mapping
from typing import Any, final

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


class MissingFeatureError(ValueError):
    """A feature is missing that a column asked for."""

    def __init__(self, key: str, found: list[str]):
        super().__init__(f"features has no {key!r}; it has {found}.")
        self.key = key


@final
class ColumnCache:
    """Tensors by the key of a feature, or by the column that computes them."""

    def __init__(self, features: Mapping[Any, Any]):
        """Keeps the features; converts one when a column asks for it.

        Args:
          features: Tensor, SparseTensor, RaggedTensor, array or list of numbers or strings, by key.

        Raises:
          ValueError: features is not a dict.
        """
        check_features(features)
        self._features = features
        self._found: dict[Hashable, Any] = {}

    def get(self, key: Any, state_manager: Any, training: bool | None = None) -> Any:
        """Returns a raw feature by its key, or what a column makes of its features.

        `training` is ignored: no column depends on it.

        Raises:
          MissingFeatureError: There is no such feature.
          ValueError: A feature is a scalar, or has strings for a numeric column.
        """
        del training
        if key not in self._found:
            self._found[key] = self._computed(key, state_manager)
        return self._found[key]

    def _computed(self, key: Any, state: Any) -> Any:
        if key in self._features:
            return _with_columns(str(key), as_tensor(self._features[key]))
        if isinstance(key, str):
            raise MissingFeatureError(key, sorted(map(str, self._features)))
        if _is_numeric(key):
            _check_numbers(key, self.get(key.key, state))
        return key.transform_feature(self, state)


def check_features(features: Any) -> None:
    """Raises ValueError unless features is a dict."""
    if not isinstance(features, Mapping):
        raise ValueError(
            f"features must be a dict with a Tensor for each key, got {features!r}. Feature "
            'columns find their feature by its key: return {"x": tensor} from input_fn.'
        )


def as_tensor(value: Any) -> Any:
    """Returns a feature as a Tensor, or as a SparseTensor if it is sparse or ragged."""
    if isinstance(value, tf.RaggedTensor):
        return value.to_sparse()
    if isinstance(value, v1.SparseTensorValue):
        return tf.SparseTensor.from_value(value)
    return value if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value)


def _is_numeric(column: Any) -> bool:
    return hasattr(column, "key") and hasattr(column, "normalizer_fn")


def _check_numbers(column: Any, feature: Any) -> None:
    """Raises ValueError if the feature of a numeric column has strings."""
    if feature.dtype == tf.string:
        raise ValueError(
            f"Cannot compute feature column {column.name!r}: it takes numbers, but feature "
            f"{column.key!r} is of type string. Convert it with tf.strings.to_number in input_fn, "
            "or use a categorical column."
        )


def _with_columns(key: str, value: Any) -> Any:
    """Gives a feature of rank 1 a second axis: [batch] becomes [batch, 1]."""
    rank = value.shape.rank
    if rank == 0:
        raise ValueError(
            f"Feature {key!r} must have an axis of examples, got the scalar {value}. Batch the "
            "dataset, or add an axis with tf.expand_dims."
        )
    if rank is not None and rank > 1:
        return value
    if isinstance(value, tf.SparseTensor):
        return _sparse_with_columns(value) if rank == 1 else value
    if rank == 1:
        return tf.expand_dims(value, -1)
    return _expanded_if_vector(value)


def _sparse_with_columns(value: Any) -> Any:
    shape = tf.concat([value.dense_shape, tf.constant([1], tf.int64)], axis=0)
    return tf.sparse.reshape(value, shape)


def _expanded_if_vector(value: Tensor) -> Tensor:
    """Adds an axis to a tensor of unknown rank if it turns out to be 1."""
    return tf.cond(
        tf.equal(tf.rank(value), 1), lambda: tf.expand_dims(value, -1), lambda: tf.identity(value)
    )
