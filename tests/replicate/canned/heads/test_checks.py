import pytest
import tensorflow as tf

from replicate.canned.heads.checks import checked, same_shape, with_last_axis
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1


def test_eager_check_fails_at_once():
    value = tf.constant([1, 2])
    assert checked(value, tf.constant(True), "Bad.", {}) is value
    with pytest.raises(ValueError, match=r"^Bad\. Received shape: \[2\]\.$"):
        checked(value, tf.constant(False), "Bad.", {"shape": tf.shape(value)})


def test_check_in_a_graph_fails_when_it_runs(graph):
    condition = v1.placeholder(tf.bool, [])
    error = "Bad 'name' of {}."
    value = checked(tf.constant([1, 2]), condition, error, {"shape": tf.constant([7])})
    with v1.Session() as session:
        assert session.run(value, {condition: True}).tolist() == [1, 2]
        text = r"^Bad 'name' of { }\. Received shape: \[7\]\.$"
        with pytest.raises(ValueError, match=text), user_errors():
            session.run(value, {condition: False})


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([2, 1], [2, 1], True), ([2, 1], [2, 3], False), ([2], [2, 2], False), ([3, 1], [3], False)],
)
def test_same_shape(first, second, expected):
    assert bool(same_shape(tf.constant(first), tf.constant(second))) is expected


def test_axis_is_added_to_rank_one_less():
    logits = tf.zeros([2, 3, 4])
    assert with_last_axis(tf.zeros([2, 3]), logits).shape == [2, 3, 1]
    assert with_last_axis(tf.zeros([2]), logits).shape == [2]
    assert with_last_axis(tf.zeros([2, 3, 1]), logits).shape == [2, 3, 1]
