"""Features of trees: feature columns as buckets, which splits compare with a threshold.

A column gives one or more features, each an int32 per example: the bucket of a number between the
boundaries of its column or between quantiles, 0 or 1 for a category that an indicator shows, or the
id of a category.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.boosted_trees.quantiles import bucketed
from replicate.canned.columns.column_kinds import Column, is_categorical, is_dense, linear_columns
from replicate.canned.columns.column_tensors import ColumnTensors

v1 = tf.compat.v1

Kind: TypeAlias = Literal["bucketized", "indicator", "numeric", "categorical"]

_MIN_BUCKETS = 2
"""Buckets of an indicator, and the fewest of a bucketized column."""


class FeatureGroup(NamedTuple):
    """Features with statistics of one shape.

    Attributes:
      buckets: Buckets of each feature, besides the one of missing values.
      ids: Indices among all features, in the order in which ties between splits are broken.
      equality: True for each feature that is split by equality with a bucket, not by order.
    """

    buckets: int
    ids: tuple[int, ...]
    equality: tuple[bool, ...]


class _Entry(NamedTuple):
    """A column, its kind, and the number of its features."""

    column: Column
    kind: Kind
    size: int


@dataclasses.dataclass(frozen=True)
class TreeFeatures:
    """Columns of the model in the order of their names.

    Attributes:
      entries: The columns.
      num_quantiles: Buckets of numeric features.
    """

    entries: tuple[_Entry, ...]
    num_quantiles: int

    @property
    def names(self) -> list[str]:
        """Name of the column of each feature, of the one inside for an indicator."""
        return [_name(entry) for entry in self.entries for _ in range(entry.size)]

    @property
    def num_numeric(self) -> int:
        """Number of features that are bucketed by quantiles."""
        return sum(entry.size for entry in self.entries if entry.kind == "numeric")

    def groups(self) -> list[FeatureGroup]:
        """Returns the features by their numbers of buckets.

        All bucketized columns have as many as the one with most.
        """
        members: dict[int, list[tuple[int, bool]]] = {}
        bucketized: list[tuple[int, bool]] = []
        most, index = _MIN_BUCKETS, 0
        for column, kind, size in self.entries:
            found = [(index + each, kind == "categorical") for each in range(size)]
            index += size
            if kind == "bucketized":
                bucketized += found
                most = max(most, len(column.boundaries) + 1)
            else:
                members.setdefault(self._buckets(column, kind), []).extend(found)
        if bucketized:
            members.setdefault(most, []).extend(bucketized)
        return [
            FeatureGroup(buckets, *zip(*each, strict=True)) for buckets, each in members.items()
        ]

    def _buckets(self, column: Column, kind: Kind) -> int:
        if kind == "numeric":
            return self.num_quantiles
        return _MIN_BUCKETS if kind == "indicator" else int(column.num_buckets)

    def numbers(self, features: Mapping[str, Any]) -> Tensor:
        """Returns the features that are bucketed by quantiles, float32 [batch, num_numeric].

        Raises:
          ValueError: A feature is missing or of a wrong shape.
        """
        tensors = ColumnTensors(features)
        columns = [entry.column for entry in self.entries if entry.kind == "numeric"]
        return tf.concat([tensors.dense(column).values for column in columns], axis=1)

    def buckets(self, features: Mapping[str, Any], boundaries: Tensor | None) -> Tensor:
        """Returns all features, int32 [batch, features].

        Args:
          features: Features of the model by key.
          boundaries: As `quantiles.bucketed` takes them; None without numeric columns.

        Raises:
          ValueError: A feature is missing or of a wrong shape.
        """
        tensors = ColumnTensors(features)
        numeric: Tensor = None
        if boundaries is not None:
            numeric = bucketed(self.numbers(features), boundaries)
        found, taken = [], 0
        for column, kind, size in self.entries:
            if kind == "numeric":
                found.append(numeric[:, taken : taken + size])
                taken += size
            elif kind == "indicator":
                found.append(tf.cast(tensors.dense(column).values, tf.int32))
            elif kind == "bucketized":
                found.append(tf.cast(tensors.transformed(column, size), tf.int32))
            else:
                found.append(_one_id(tensors.ids_and_weights(column).id_tensor, column.name))
        return tf.concat(found, axis=1)


def make_features(feature_columns: Any, num_quantiles: int) -> TreeFeatures:
    """Returns the features of columns.

    Raises:
      ValueError: There is no column, two have one name, or trees cannot split by one.
      TypeError: One is not a feature column.
    """
    columns = linear_columns("feature_columns", feature_columns)
    return TreeFeatures(tuple(map(_entry, columns)), num_quantiles)


def _entry(column: Column) -> _Entry:
    if hasattr(column, "boundaries"):
        shape = column.source_column.shape
        return _Entry(column, "bucketized", _elements(column.name, shape))
    if is_dense(column) and hasattr(column, "categorical_column"):
        if hasattr(column, "dimension"):
            raise ValueError(_refusal(column, "it is an embedding, which trees cannot train"))
        return _Entry(column, "indicator", int(column.categorical_column.num_buckets))
    if is_dense(column):
        return _Entry(column, "numeric", _elements(column.name, column.variable_shape))
    if is_categorical(column) and not hasattr(column, "weight_feature_key"):
        return _Entry(column, "categorical", 1)
    raise ValueError(_refusal(column, "trees can neither train a table nor weight categories"))


def _elements(name: str, shape: Any) -> int:
    """Returns the numbers of a dense column."""
    dimensions = tf.TensorShape(shape)
    if dimensions.rank is not None and dimensions.rank > 1:
        raise ValueError(
            f"Cannot grow trees by feature column {name!r}: it is of shape {dimensions}, and must "
            "have one axis at most. Flatten the feature and give its length as the shape."
        )
    return int(dimensions.num_elements())


def _refusal(column: Column, reason: str) -> str:
    return (
        f"Cannot grow trees by feature column {column.name!r}: {reason}. Take a numeric, bucketized"
        " or indicator column, or a categorical one with one id for each example."
    )


def _name(entry: _Entry) -> str:
    inner = entry.column.categorical_column if entry.kind == "indicator" else entry.column
    return str(inner.name)


def _one_id(ids: Any, name: str) -> Tensor:
    """Returns the ids of examples, int32 [batch, 1].

    An example without an id has the first one, and an unknown category has -1, as in tf.estimator.
    """
    dense = tf.cast(tf.sparse.to_dense(ids), tf.int32)
    rows = tf.shape(dense)[0]
    error = (
        f"Cannot grow trees by feature column {name!r}: an example has several categories. Wrap "
        "the column in tf.feature_column.indicator_column."
    )
    with v1.control_dependencies(
        [v1.debugging.assert_less_equal(tf.size(dense), rows, message=error)]
    ):
        # Without any id, the width of the batch is 0.
        return tf.reshape(tf.pad(dense, [[0, 0], [0, 1]])[:, :1], [-1, 1])


def group_buckets(buckets: Tensor, group: FeatureGroup) -> Tensor:
    """Returns the features of a group, int32 [batch, features of the group].

    Missing values, negative in `buckets`, have the number after the last bucket. A count above 1
    of an indicator shares it with them, as in tf.estimator.
    """
    chosen = tf.gather(buckets, list(group.ids), axis=1)
    return tf.where(chosen < 0, group.buckets, tf.minimum(chosen, group.buckets))
