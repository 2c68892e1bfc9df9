"""Features as columns see them: shapes, kinds of values, and what is missing."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_cache import ColumnCache, MissingFeatureError

v1 = tf.compat.v1


class Doubling:
    """A column that doubles a feature and counts its calls."""

    calls = 0

    def transform_feature(self, cache, state):
        self.calls += 1
        return 2 * cache.get("x", state)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.0, 2.0], [[1], [2]]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (lambda: v1.placeholder_with_default([5.0, 6.0], None), [[5], [6]]),
        (lambda: v1.placeholder_with_default([[5.0], [6.0]], None), [[5], [6]]),
        (lambda: tf.sparse.from_dense([1, 0, 2]), [[1], [0], [2]]),
        (v1.SparseTensorValue([[1, 0]], [7], [2, 2]), [[0, 0], [7, 0]]),
        (lambda: tf.ragged.constant([[1], [2, 3]]), [[1, 0], [2, 3]]),
    ],
    ids=["list", "array", "vector", "matrix", "sparse vector", "sparse value", "ragged"],
)
def test_feature_has_an_axis_besides_the_batch(graph, value, expected):
    found = ColumnCache({"x": value() if callable(value) else value}).get("x", None)
    dense = tf.sparse.to_dense(found) if isinstance(found, tf.SparseTensor) else found
    with v1.Session() as session:
        np.testing.assert_array_equal(session.run(dense), expected)


def test_column_is_computed_once(graph):
    column, cache = Doubling(), ColumnCache({"x": [1.0]})
    assert cache.get(column, None) is cache.get(column, None, training=True)
    assert column.calls == 1


def test_missing_feature_lists_the_others(graph):
    with pytest.raises(MissingFeatureError, match=r"features has no 'y'; it has \['x'\]") as caught:
        ColumnCache({"x": [1.0]}).get("y", None)
    assert caught.value.key == "y"


def test_scalar_feature_is_refused(graph):
    with pytest.raises(ValueError, match="Feature 'x' must have an axis of examples"):
        ColumnCache({"x": 1.0}).get("x", None)


def test_features_must_be_a_dict():
    with pytest.raises(ValueError, match="features must be a dict with a Tensor for each key"):
        ColumnCache(np.ones(3))
