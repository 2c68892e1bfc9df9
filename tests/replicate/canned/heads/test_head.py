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
    TowerOptimizer,
    replicate_model_fn,
)

v1 = tf.compat.v1

_random = np.random.default_rng(0)
FEATURES = {
    "x": _random.normal(size=[8, 3]).astype(np.float32),
    "w": _random.integers(0, 4, 8).astype(np.float32),
}
LABELS = _random.integers(0, 2, 8)
REGULARIZATION = 0.5


def model_fn(head):
    """A linear model with this head, and a moving average of its inputs."""

    def model(features, labels, mode):
        average = v1.get_variable(
            "average", [3], initializer=v1.zeros_initializer(), trainable=False
        )
        update = v1.assign_add(average, (tf.reduce_mean(features["x"], 0) - average) / 2)
        units = head.logits_dimension
        kernel = v1.get_variable("kernel", [3, units], initializer=v1.ones_initializer())
        regularization = [REGULARIZATION * tf.nn.l2_loss(kernel)]
        return head.create_estimator_spec(
            features,
            mode,
            tf.matmul(features["x"], kernel),
            labels,
            optimizer=TowerOptimizer(v1.train.AdagradOptimizer(0.1)),
            trainable_variables=[kernel],
            update_ops=[update],
            regularization_losses=regularization,
        )

    return model


def run_steps(model, mode, steps=1):
    """Runs a model on the batch: losses of the steps, metrics, average and kernel."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features = {name: tf.constant(value) for name, value in FEATURES.items()}
        spec = model(features=features, labels=tf.constant(LABELS), mode=mode)
        values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
        step = [update for _, update in spec.eval_metric_ops.values()]
        step += [spec.train_op] if spec.train_op is not None else []
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            losses = [session.run([spec.loss, step])[0] for _ in range(steps)]
            return losses, session.run(values), session.run(v1.global_variables("average|kernel$"))


HEADS = [
    BinaryClassHead("w", thresholds=[0.4], name="b"),
    MultiClassHead(3, "w", loss_reduction="sum"),
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_two_towers_equal_one(head, mode):
    reduction = "weighted_sum" if head.loss_reduction == "sum" else "weighted_sum_over_batch_size"
    model = model_fn(head)
    both = replicate_model_fn(model, reduction, devices=["/cpu:0", "/cpu:1"])
    losses, metrics, variables = run_steps(both, mode, steps=3)
    expected = run_steps(model, mode, steps=3)
    np.testing.assert_allclose(losses, expected[0], rtol=2e-6)
    for got, wanted in zip(variables, expected[2], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-7)
    assert metrics.keys() == expected[1].keys()
    assert bool(metrics) == (mode == ModeKeys.EVAL)
    for name, value in expected[1].items():
        assert metrics[name] == pytest.approx(value, rel=2e-6), name


def summaries(spec):
    with v1.Session() as session:
        assert session.run(spec.train_op) == session.run(spec.loss)
        written = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    return {value.tag: value.simple_value for value in written.value}


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        (
            {"name": "größe in m²"},
            {"loss/gr__e_in_m_": 7.0, "regularization_loss/gr__e_in_m_": 2.0},
        ),
        (
            {"loss_reduction": "sum"},
            {"loss": 12.0, "average_loss": 5.0, "regularization_loss": 2.0},
        ),
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


LOGITS = np.array([[0.5], [-1.0]], np.float32)
CLASSIFIER = ["classification", "predict", "serving_default"]


@pytest.mark.parametrize(
    ("head", "signatures", "curvature"),
    [
        (BinaryClassHead("w", name="age"), [*CLASSIFIER, "regression"], ("multi_bernoulli", 1)),
        (MultiClassHead(4), CLASSIFIER, ("categorical", 1)),
        (MultiLabelHead(4), CLASSIFIER, ("multi_bernoulli", 0.25)),
        (
            RegressionHead(2, "w"),
            ["predict", "regression", "serving_default"],
            ("squared_error", 0.5),
        ),
        (
            LogisticRegressionHead(),
            ["predict", "regression", "serving_default"],
            ("multi_bernoulli", 1),
        ),
        (PoissonRegressionHead(), ["predict", "regression", "serving_default"], None),
        (BinaryClassHead(loss_fn=lambda labels, logits: labels), [*CLASSIFIER, "regression"], None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Head) else None,
)
def test_signatures_and_curvature(graph, head, signatures, curvature):
    """Predictions need neither labels nor weights."""
    logits = np.repeat(LOGITS, head.logits_dimension, axis=1)
    spec = head.create_estimator_spec(None, ModeKeys.PREDICT, tf.constant(logits))
    outputs, found = spec.export_outputs, spec.predictions
    assert spec.loss is None
    assert sorted(outputs) == sorted(signatures)
    assert outputs["predict"].outputs == found
    if "regression" in outputs:
        assert (
            outputs["regression"].value
            is found["logistic" if "logistic" in found else "predictions"]
        )
    if "classification" in outputs:
        assert outputs["serving_default"] is outputs["classification"]
        assert outputs["classification"].scores is found["probabilities"]
        assert outputs["classification"].classes.shape[-1] == found["probabilities"].shape[-1]
    losses = head.curvature_losses(logits, {"w": np.array([1.0, 3.0])})
    assert (losses is None) == (curvature is None)
    for loss in losses or ():
        assert (loss.kind, loss.coefficient, loss.name) == (*curvature, head.name or "head")
        assert loss.weights.shape.as_list() in ([], [2, 1])
        assert loss.logits.shape == logits.shape


def test_unknown_mode_is_refused(graph):
    with pytest.raises(ValueError, match="mode is 'test'"):
        RegressionHead().create_estimator_spec({}, "test", tf.ones([2, 1]), tf.ones([2]))


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


def test_incomplete_head_cannot_be_made():
    class Incomplete(Head):
        """A head without anything."""

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()
