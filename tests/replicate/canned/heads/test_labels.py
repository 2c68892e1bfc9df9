"""Labels, weights of examples and reductions of losses: numbers against NumPy, and errors."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.heads.checks import checked, same_shape
from replicate.canned.heads.labels import ONE_ID, checked_logits, dense_labels, in_range
from replicate.canned.heads.reductions import (
    SUM_OVER_BATCH_SIZE,
    call_loss_fn,
    check_loss_fn,
    old_reduction,
    reduced_loss,
)
from replicate.canned.heads.weights import check_weight_column, example_weights
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
ADVICE = "Do this."
LOSSES = np.array([[1.0, 5.0], [4.0, 2.0], [9.0, 3.0]], np.float32)
WEIGHTS = np.array([[1.0], [0.0], [3.0]], np.float32)
TOTAL = 6 + 36.0


def test_logits_are_floats_of_the_dimension():
    logits = checked_logits(np.array([[1, 2]]), 2, "Head")
    assert logits.dtype == tf.float32
    assert logits.numpy().tolist() == [[1.0, 2.0]]
    for shape in ([2], [2, 1], [2, 2, 3]):
        with pytest.raises(ValueError, match=r"in Head: .*\[D0, \.\.\., DN, 2\].*Received shape"):
            checked_logits(tf.zeros(shape), 2, "Head")


def test_unknown_shapes_are_checked_when_the_graph_runs(graph):
    given = v1.placeholder(tf.float32)
    logits = checked_logits(given, 2, "Head")
    labels = dense_labels(given, tf.zeros([2, 1]), 1, "Head", ADVICE)
    weighted = weights(given, logits=tf.zeros([2, 3]))
    column, vector = [[1], [2]], [1, 2, 3]
    of_weights = r"of Head, feature 'w', do .* weights_shape: \[3\], logits_shape: \[2 3\]"
    with v1.Session() as session:
        for made, right, wrongs, text in [
            (logits, [[1, 2]], (vector, [[1, 2, 3]], 2), "Cannot use the logits in Head"),
            (labels, column, (vector,), r"this\. .*labels_shape: \[3\], logits_shape: \[2 1\]\.$"),
            (weighted, column, (vector,), of_weights),
        ]:
            assert session.run(made, {given: right}).tolist() == right
            for wrong in wrongs:
                with pytest.raises(ValueError, match=text), user_errors():
                    session.run(made, {given: wrong})


def test_unusable_labels_are_refused():
    for labels, text in (
        (None, "loss of Head: labels are None"),
        ({"a": 1}, r"must be a Tensor, but are a dict of \['a'\]"),
        (tf.ragged.constant([[1], [1, 2]]), "must be a Tensor, but are ragged"),
        (tf.sparse.from_dense([[1], [2]]), "are a SparseTensor. Pass a dense Tensor"),
        (tf.ones([2, 3]), r"such as tf\.argmax\(labels, -1\); .*labels of shape \(2, 3\)"),
        (tf.ones([3]), r"labels of shape \(3, 1\), logits of shape \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=text):
            dense_labels(labels, tf.zeros([2, 3]), 1, "Head", ONE_ID)


def test_labels_out_of_range():
    assert in_range(tf.constant([0, 2]), 2, "Head", "").numpy().tolist() == [0, 2]
    for wrong in ([0, 3], [-1, 2]):
        with pytest.raises(ValueError, match=r"must be in \[0, 2\]\. Do\. Received smallest_label"):
            in_range(tf.constant(wrong), 2, "Head", "Do.")
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        in_range(tf.constant([float("nan")]), 1, "Head", "")


def weights(value, column="w", logits=None):
    logits = tf.zeros([2, 3]) if logits is None else logits
    return example_weights({"w": value}, column, logits, False, "Head")


def test_weights_are_floats_with_a_last_axis():
    assert example_weights(None, None, tf.zeros([2, 3]), False, "Head").numpy() == 1.0
    for value in ([1, 2], [[1.0], [2.0]], np.array([1, 2], np.uint8)):
        made = weights(value)
        assert made.dtype == tf.float32
        assert made.numpy().tolist() == [[1.0], [2.0]]
    assert weights(tf.ones([2, 4]), logits=tf.zeros([2, 4, 3])).shape == [2, 4, 1]
    column = tf.feature_column.numeric_column("w", normalizer_fn=lambda w: w * 10)
    assert weights([1.0, 2.0], column).numpy().tolist() == [[10.0], [20.0]]


def test_columns_and_features_without_weights_are_refused():
    for accepted in (None, "w", tf.feature_column.numeric_column("w")):
        check_weight_column(accepted, "Head")
    column = tf.feature_column.categorical_column_with_identity("w", 3)
    with pytest.raises(TypeError, match=r"Head: weight_column must be the key .* got Identity"):
        check_weight_column(column, "Head")
    with pytest.raises(KeyError, match=r"of Head: the features lack its weight_column 'w', they"):
        example_weights({"x": 1}, "w", tf.zeros([2, 3]), False, "Head")
    with pytest.raises(ValueError, match="must be a dict with the weights as 'w', got None"):
        example_weights(None, "w", tf.zeros([2, 3]), False, "Head")
    for wrong, text in (
        (tf.ones([2, 3]), r"weights of shape \(2, 3\), logits of shape \(2, 3\)"),
        (["1", "2"], "feature 'w' is of type string"),
        (tf.sparse.from_dense([1.0, 0.0]), "feature 'w' is a SparseTensor"),
    ):
        with pytest.raises(ValueError, match=text):
            weights(wrong)


def test_check_in_a_graph_fails_when_it_runs(graph):
    condition = v1.placeholder(tf.bool, [])
    error = "Bad 'name' of {}."
    value = checked(tf.constant([1, 2]), condition, error, {"shape": tf.constant([7])})
    with v1.Session() as session:
        assert session.run(value, {condition: True}).tolist() == [1, 2]
        text = r"^Bad 'name' of { }\. Received shape: \[7\]\.$"
        with pytest.raises(ValueError, match=text), user_errors():
            session.run(value, {condition: False})


def test_shapes_of_other_ranks_differ():
    for first, second in (([2], [2, 2]), ([1, 1], [1]), ([2, 1], [2, 3])):
        assert not same_shape(tf.constant(first), tf.constant(second))


Old = v1.losses.Reduction


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum", TOTAL),
        (Old.SUM, TOTAL),
        (SUM_OVER_BATCH_SIZE, TOTAL / 6),
        ("auto", TOTAL / 6),
        (tf.losses.Reduction.SUM_OVER_BATCH_SIZE, TOTAL / 6),
        (Old.SUM_OVER_BATCH_SIZE, TOTAL / 6),
        (Old.MEAN, TOTAL / 8),
        (Old.SUM_BY_NONZERO_WEIGHTS, TOTAL / 4),
    ],
)
def test_reductions_of_both_generations(reduction, expected):
    loss = reduced_loss(tf.constant(LOSSES), tf.constant(WEIGHTS), reduction)
    assert float(loss) == pytest.approx(expected)
    assert float(reduced_loss(tf.constant(LOSSES), tf.zeros([3, 1]), reduction)) == 0


def test_unusable_reductions_and_loss_fns_are_refused():
    for reduction in ("none", None):
        text = rf"loss_reduction is {reduction!r}\. Accepted are \['sum"
        with pytest.raises(ValueError, match=text):
            old_reduction(reduction)
    check_loss_fn(lambda labels, logits, features, loss_reduction: 0, "Head")
    with pytest.raises(TypeError, match="make Head: loss_fn must be a function"):
        check_loss_fn("squared", "Head")
    with pytest.raises(ValueError, match=r"no parameter 'logits', .* only \['labels'\]"):
        check_loss_fn(lambda labels: 0, "Head")
    with pytest.raises(ValueError, match=r"requires the arguments \['alpha'\], but receives only"):
        check_loss_fn(lambda labels, logits, alpha: 0, "Head")


def test_loss_fn_may_have_bound_and_optional_parameters():
    def weighted(labels, logits, alpha, beta=1.0, **more):
        return (labels - logits) * alpha * beta + len(more)

    bound = functools.partial(weighted, alpha=2.0)
    check_loss_fn(bound, "Head")
    logits = tf.constant([[1.0], [2.0]])
    losses = call_loss_fn(bound, tf.constant([[5.0], [5.0]]), logits, {}, "sum", 1, "Head")
    assert losses.numpy().tolist() == [[8.0], [6.0]]


def test_loss_fn_gets_what_it_names():
    seen = {}

    def loss_fn(labels, logits, features, loss_reduction):
        seen.update(features=features, loss_reduction=loss_reduction)
        return tf.cast(labels, tf.float64) - tf.cast(logits, tf.float64)

    logits = tf.constant([[1.0], [2.0]])
    losses = call_loss_fn(loss_fn, tf.constant([[5], [5]]), logits, {"x": 1}, "sum", 1, "Head")
    assert losses.dtype == tf.float32
    assert losses.numpy().tolist() == [[4.0], [3.0]]
    assert seen == {"features": {"x": 1}, "loss_reduction": "sum"}
    text = r"loss_fn of Head must .*loss_shape: \[\], logits_shape: \[2 1\]"
    with pytest.raises(ValueError, match=text):
        call_loss_fn(lambda labels, logits: 1, losses, logits, None, "sum", 1, "Head")
