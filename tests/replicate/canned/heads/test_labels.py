import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.heads.labels import ONE_ID, checked_logits, dense_labels, in_range
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
ADVICE = "Do this."
InvalidArgument = tf.errors.InvalidArgumentError


def test_logits_become_floats():
    logits = checked_logits(np.array([[1, 2]]), 2, "Head")
    assert logits.dtype == tf.float32
    assert logits.numpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("shape", [[2], [2, 1], [2, 2, 3]])
def test_logits_of_a_wrong_known_shape_are_refused(graph, shape):
    with pytest.raises(
        ValueError, match=r"logits in Head: .*\[D0, \.\.\., DN, 2\].*Received shape"
    ):
        checked_logits(tf.zeros(shape), 2, "Head")


def test_logits_of_unknown_shape_are_checked_at_run_time(graph):
    given = v1.placeholder(tf.float32)
    logits = checked_logits(given, 2, "Head")
    with v1.Session() as session:
        assert session.run(logits, {given: np.ones([1, 2])}).shape == (1, 2)
        for wrong in (np.ones([2]), np.ones([2, 3]), 2.0):
            with pytest.raises(InvalidArgument, match="Cannot use the logits in Head"):
                session.run(logits, {given: wrong})


def test_labels_get_a_last_axis():
    assert dense_labels([1, 0], tf.zeros([2, 1]), 1, "Head", ADVICE).numpy().tolist() == [[1], [0]]
    assert dense_labels(tf.ones([2, 4]), tf.zeros([2, 4, 3]), 1, "Head", ADVICE).shape == [2, 4, 1]
    assert dense_labels(tf.ones([2, 3]), tf.zeros([2, 3]), 3, "Head", ADVICE).shape == [2, 3]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (None, "loss of Head: labels are None"),
        ({"a": 1}, r"must be a Tensor, but are a dict of \['a'\]"),
        (tf.ragged.constant([[1], [1, 2]]), "must be a Tensor, but are ragged"),
        (tf.sparse.from_dense([[1], [2]]), "are a SparseTensor. Pass a dense Tensor"),
        (tf.ones([2, 3]), r"of shape \(2, 3\)"),
    ],
)
def test_unusable_labels_are_refused(labels, text):
    with pytest.raises(ValueError, match=text):
        dense_labels(labels, tf.zeros([2, 3]), 1, "Head", ADVICE)


def test_one_hot_labels_are_explained():
    with pytest.raises(ValueError, match=r"such as tf\.argmax\(labels, -1\); use MultiLabelHead"):
        dense_labels(tf.eye(3), tf.zeros([3, 3]), 1, "Head", ONE_ID)


def test_labels_of_another_batch_are_refused_at_once():
    text = r"labels of shape \(3, 1\), logits of shape \(2, 1\)"
    with pytest.raises(ValueError, match=text):
        dense_labels(tf.ones([3]), tf.zeros([2, 1]), 1, "Head", ADVICE)


def test_labels_of_another_batch_fail_in_a_graph(graph):
    given = v1.placeholder(tf.float32, None)
    labels = dense_labels(given, tf.zeros([2, 1]), 1, "Head", ADVICE)
    text = r"Do this\. Received labels_shape: \[3\], logits_shape: \[2 1\]\.$"
    with v1.Session() as session:
        assert session.run(labels, {given: [[1], [2]]}).tolist() == [[1], [2]]
        with pytest.raises(ValueError, match=text), user_errors():
            session.run(labels, {given: [1, 2, 3]})


def test_labels_out_of_range():
    assert in_range(tf.constant([0, 2]), 2, "Head", "").numpy().tolist() == [0, 2]
    for wrong in ([0, 3], [-1, 2]):
        with pytest.raises(ValueError, match=r"must be in \[0, 2\]\. Do\. Received smallest_label"):
            in_range(tf.constant(wrong), 2, "Head", "Do.")
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        in_range(tf.constant([float("nan")]), 1, "Head", "")


def test_labels_out_of_range_fail_in_a_graph(graph):
    labels = in_range(tf.constant([0, 7]), 2, "Head", "Do.")
    with v1.Session() as session, pytest.raises(InvalidArgument, match="largest_label: 7"):
        session.run(labels)
