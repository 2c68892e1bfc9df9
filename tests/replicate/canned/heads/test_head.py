"""Specs of heads in each mode, alone and on towers, and heads of users."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import (
    BinaryClassHead,
    Head,
    LogisticRegressionHead,
    ModeKeys,
    MultiClassHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
)

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("head", "reduction"),
    [
        (BinaryClassHead("w", thresholds=[0.4], name="b"), "weighted_sum_over_batch_size"),
        (MultiClassHead(3, "w", loss_reduction="sum"), "weighted_sum"),
    ],
)
def test_two_towers_equal_one(check_towers, head, reduction):
    random = np.random.default_rng(0)
    features = {
        "x": random.normal(size=[8, 3]).astype(np.float32),
        "w": random.integers(0, 4, 8).astype(np.float32),
    }
    check_towers(head, features, random.integers(0, 2, 8), reduction, towers=2)


def summaries(spec):
    with v1.Session() as session:
        assert session.run(spec.train_op) == session.run(spec.loss)
        written = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    return {value.tag: value.simple_value for value in written.value}


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"name": "größe in m²"}, {"loss/gr__e_in_m_": 7, "regularization_loss/gr__e_in_m_": 2}),
        ({"loss_reduction": "sum"}, {"loss": 12, "average_loss": 5, "regularization_loss": 2}),
    ],
    ids=["any name", "sum"],
)
def test_train_spec(graph, settings, written):
    spec = RegressionHead(**settings).create_estimator_spec(
        {},
        ModeKeys.TRAIN,
        tf.constant([[1.0], [3.0]]),
        tf.constant([0.0, 0.0]),
        train_op_fn=lambda loss: tf.identity(loss, name="train"),
        regularization_losses=[tf.constant(2.0)],
    )
    assert spec.train_op.name == "training/train:0"
    assert spec.eval_metric_ops == {}
    assert spec.export_outputs is None
    assert summaries(spec) == written


def test_eval_spec(graph):
    spec = BinaryClassHead(name="b").create_estimator_spec(
        {}, ModeKeys.EVAL, tf.constant([[1.0], [3.0]]), tf.constant([0, 1])
    )
    assert "accuracy/b" in spec.eval_metric_ops
    assert spec.train_op is None
    assert "probabilities" in spec.predictions
    assert v1.summary.merge_all() is None
    assert spec.loss.name.startswith("b/losses/")
    assert v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)[0].name.startswith("b/metrics/")
    with pytest.raises(ValueError, match="mode is 'test'"):
        RegressionHead().create_estimator_spec({}, "test", tf.ones([2, 1]), tf.ones([2]))


LOGITS = np.array([[0.5], [-1.0]], np.float32)
CLASSIFIER = ["classification", "predict", "serving_default"]
BINARY = ["classification", "predict", "regression", "serving_default"]
REGRESSION = ["predict", "regression", "serving_default"]


@pytest.mark.parametrize(
    ("head", "signatures", "curvature"),
    [
        (BinaryClassHead("w", name="age"), BINARY, ("multi_bernoulli", 1, [2, 1])),
        (MultiClassHead(4), CLASSIFIER, ("categorical", 1, [])),
        (MultiLabelHead(4), CLASSIFIER, ("multi_bernoulli", 0.25, [])),
        (RegressionHead(2, "w"), REGRESSION, ("squared_error", 0.5, [2, 1])),
        (LogisticRegressionHead(), REGRESSION, ("multi_bernoulli", 1, [])),
        (PoissonRegressionHead(), REGRESSION, None),
        (BinaryClassHead(loss_fn=lambda labels, logits: labels), BINARY, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Head) else None,
)
def test_signatures_and_curvature(graph, head, signatures, curvature):
    """Predictions need neither labels nor weights."""
    logits = np.repeat(LOGITS, head.logits_dimension, axis=1)
    spec = head.create_estimator_spec(None, ModeKeys.PREDICT, tf.constant(logits))
    outputs, found = spec.export_outputs, spec.predictions
    assert spec.loss is None
    assert sorted(outputs) == signatures
    assert outputs["predict"].outputs == found
    if "regression" in outputs:
        key = "logistic" if "logistic" in found else "predictions"
        assert outputs["regression"].value is found[key]
    if "classification" in outputs:
        assert outputs["serving_default"] is outputs["classification"]
        assert outputs["classification"].scores is found["probabilities"]
        assert outputs["classification"].classes.shape[-1] == found["probabilities"].shape[-1]
    losses = head.curvature_losses(logits, {"w": np.array([1.0, 3.0])})
    assert (losses is None) == (curvature is None)
    for loss in losses or ():
        assert (loss.kind, loss.coefficient, loss.weights.shape.as_list()) == curvature
        assert (loss.name, loss.logits.shape) == (head.name or "head", logits.shape)


class SumHead(Head):
    """A user's head."""

    name = "mine"
    logits_dimension = 2
    loss_reduction = "sum"

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        return tf.reduce_sum(logits - labels)

    def predictions(self, logits, keys=None):
        return {"sum": tf.reduce_sum(logits, axis=1)}

    def metrics(self, regularization_losses=None):
        return {}

    def update_metrics(
        self, eval_metrics, features, logits, labels, mode=None, regularization_losses=None
    ):
        return {"mean": v1.metrics.mean(logits)}


def test_head_of_a_user(graph):
    head, logits = SumHead(), tf.constant([[1.0, 2.0]])
    train = head.create_estimator_spec(
        {}, ModeKeys.TRAIN, logits, tf.zeros([1, 2]), train_op_fn=tf.identity
    )
    assert summaries(train) == {"loss/mine": 3.0}
    evaluation = head.create_estimator_spec({}, ModeKeys.EVAL, logits, tf.zeros([1, 2]))
    assert list(evaluation.eval_metric_ops) == ["mean"]
    prediction = head.create_estimator_spec({}, ModeKeys.PREDICT, logits)
    assert list(prediction.export_outputs) == ["serving_default"]
    assert head.curvature_losses(logits) is None
