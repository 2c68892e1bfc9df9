import numpy as np
import pytest
import tensorflow as tf

from replicate import BinaryClassHead, ModeKeys, MultiHead, RegressionHead, SequentialHeadWrapper

v1 = tf.compat.v1

MASK = np.array([[True, True, False], [True, False, False]])
LOGITS = np.arange(6.0, dtype=np.float32).reshape(2, 3, 1)
LABELS = np.array([[1.0, 3.0, 9.0], [2.0, 9.0, 9.0]], np.float32)
WEIGHTS = np.array([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]], np.float32)
FEATURES = {"sequence_length_mask": MASK, "w": WEIGHTS}
ERRORS = (LOGITS[..., 0] - LABELS)[MASK] ** 2


def make_head(name=None):
    return SequentialHeadWrapper(RegressionHead(weight_column="w", name=name), feature_columns="w")


def test_padding_does_not_count(evaluated):
    weights = WEIGHTS[MASK]
    assert float(make_head().loss(LABELS, LOGITS, FEATURES)) == np.mean(weights * ERRORS)
    assert evaluated(make_head(), (LABELS, LOGITS, FEATURES)) == pytest.approx(
        {
            "average_loss": np.average(ERRORS, weights=weights),
            "prediction/mean": np.average(LOGITS[..., 0][MASK], weights=weights),
            "label/mean": np.average(LABELS[MASK], weights=weights),
        }
    )
    (loss,) = make_head().curvature_losses(LOGITS, FEATURES)
    assert loss.logits.numpy().tolist() == LOGITS[MASK].tolist()
    assert loss.weights.numpy().ravel().tolist() == weights.tolist()


def test_sparse_labels_are_the_steps_that_count():
    labels = tf.SparseTensor([[1, 0], [0, 0], [0, 1]], [2.0, 1.0, 3.0], [2, 3])
    got = make_head().loss(labels, LOGITS, FEATURES)
    assert float(got) == np.mean(WEIGHTS[MASK] * ERRORS)
    labels = tf.SparseTensor([[0, 0]], [2.0], [2, 3])
    with pytest.raises(ValueError, match=r"labels have another number of steps .* steps: 3, rows_"):
        make_head().loss(labels, LOGITS, FEATURES)


def test_specs(graph):
    features = {name: tf.constant(value) for name, value in FEATURES.items()}
    given = (tf.constant(LOGITS), tf.constant(LABELS))
    head = make_head()
    train = head.create_estimator_spec(features, ModeKeys.TRAIN, *given, train_op_fn=tf.identity)
    evaluation = head.create_estimator_spec(features, ModeKeys.EVAL, *given)
    prediction = head.create_estimator_spec(features, ModeKeys.PREDICT, given[0])
    assert sorted(evaluation.eval_metric_ops) == ["average_loss", "label/mean", "prediction/mean"]
    assert sorted(prediction.export_outputs) == ["predict", "regression", "serving_default"]
    with v1.Session() as session:
        expected = np.mean(WEIGHTS[MASK] * ERRORS)
        assert session.run([train.train_op, evaluation.loss]) == pytest.approx([expected] * 2)
        found = session.run(prediction.predictions)
    assert found["sequence_length_mask"].tolist() == MASK.tolist()
    assert found["predictions"].shape == (2, 3, 1)


def test_wrappers_are_heads_of_a_multi_head(graph):
    head = MultiHead([make_head("a"), SequentialHeadWrapper(BinaryClassHead(name="b"))])
    assert (head.name, head.logits_dimension) == ("a_sequential_b_sequential", 2)
    labels = {"a_sequential": LABELS, "b_sequential": LABELS > 2}
    spec = head.create_estimator_spec(
        FEATURES, ModeKeys.EVAL, np.concatenate([LOGITS, LOGITS], -1), labels
    )
    assert {"average_loss/a", "accuracy/b", "loss/a_sequential"} <= set(spec.eval_metric_ops)


def test_wrong_arguments_are_refused():
    head = RegressionHead(name="r")
    for arguments in ((3,), ("mask", 3), ("mask", [3])):
        with pytest.raises(TypeError, match=r"Cannot make SequentialHeadWrapper: feature.*, got 3"):
            SequentialHeadWrapper(head, *arguments)
    with pytest.raises(TypeError, match=r"static_head must be a replicate\.Head, got 3"):
        SequentialHeadWrapper(3)
    with pytest.raises(ValueError, match="of MultiHead 'r': a mask belongs to one head"):
        SequentialHeadWrapper(MultiHead([head]))


@pytest.mark.parametrize(
    ("features", "logits", "text"),
    [
        ({"w": WEIGHTS}, LOGITS, r"needs feature 'sequence_length_mask', .* \['w'\]\. Put it"),
        ({"sequence_length_mask": MASK}, LOGITS, "needs feature 'w'"),
        (None, LOGITS, r"the features are \[\]"),
        ({**FEATURES, "sequence_length_mask": MASK[0]}, LOGITS, r"must be \[batch, time\], got"),
        (FEATURES, LOGITS[0, :, 0], r"needs logits of shape \[batch, time, \.\.\.\], got \(3,\)"),
    ],
)
def test_wrong_features_and_logits_are_refused(features, logits, text):
    with pytest.raises(ValueError, match=text):
        make_head().loss(LABELS, logits, features)
