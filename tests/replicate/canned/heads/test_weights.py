import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.heads.weights import check_weight_column, example_weights
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
LOGITS = tf.zeros([2, 3])


def weights(value, column="w", logits=LOGITS, per_logit=False):
    return example_weights({"w": value}, column, logits, per_logit, "Head")


def test_no_column_gives_weight_one():
    assert example_weights(None, None, LOGITS, False, "Head").numpy() == 1.0


@pytest.mark.parametrize("value", [[1, 2], [[1.0], [2.0]], np.array([1, 2], np.uint8)])
def test_weights_get_a_last_axis(value):
    made = weights(value)
    assert made.dtype == tf.float32
    assert made.numpy().tolist() == [[1.0], [2.0]]


def test_weights_of_sequences():
    assert weights(tf.ones([2, 4]), logits=tf.zeros([2, 4, 3])).shape == [2, 4, 1]


def test_weights_for_each_logit():
    assert weights(tf.ones([2, 3]), per_logit=True).shape == [2, 3]
    with pytest.raises(ValueError, match=r"weights of shape \(2, 3\), logits of shape \(2, 3\)"):
        weights(tf.ones([2, 3]))


def test_numeric_column_normalizes():
    column = tf.feature_column.numeric_column("w", normalizer_fn=lambda w: w * 10)
    assert weights([1.0, 2.0], column).numpy().tolist() == [[10.0], [20.0]]


def test_other_columns_are_refused():
    column = tf.feature_column.categorical_column_with_identity("w", 3)
    with pytest.raises(
        TypeError, match=r"make Head: weight_column must be the key .* got Identity"
    ):
        check_weight_column(column, "Head")
    for accepted in (None, "w", tf.feature_column.numeric_column("w")):
        check_weight_column(accepted, "Head")


def test_missing_feature_is_named():
    with pytest.raises(KeyError, match=r"of Head: the features lack its weight_column 'w', they"):
        example_weights({"x": 1}, "w", LOGITS, False, "Head")
    with pytest.raises(
        ValueError, match="features must be a dict with the weights as 'w', got None"
    ):
        example_weights(None, "w", LOGITS, False, "Head")


def test_values_that_are_no_weights_are_refused():
    with pytest.raises(ValueError, match="feature 'w' is of type string"):
        weights(["1", "2"])
    with pytest.raises(ValueError, match="feature 'w' is a SparseTensor"):
        weights(tf.sparse.from_dense([1.0, 0.0]))


def test_wrong_shape_fails_in_a_graph(graph):
    given = v1.placeholder(tf.float32, None)
    made = weights(given, logits=tf.zeros([2, 3]))
    text = r"of Head, feature 'w', do .* weights_shape: \[3\], logits_shape: \[2 3\]"
    with v1.Session() as session:
        assert session.run(made, {given: [[1], [2]]}).tolist() == [[1], [2]]
        with pytest.raises(ValueError, match=text), user_errors():
            session.run(made, {given: [1, 2, 3]})
