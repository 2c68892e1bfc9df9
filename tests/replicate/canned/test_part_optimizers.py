"""Optimizers of parts: what is handed to `register`, and when."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.canned.part_optimizers import PartOptimizer

v1 = tf.compat.v1
fc = tf.feature_column

JOB = fc.categorical_column_with_identity("job", 3)
DENSE = [fc.numeric_column("x", [2]), fc.embedding_column(JOB, 2)]
FEATURES = {"x": np.ones([4, 2], np.float32), "job": np.array([0, 1, 2, 1]), "w": np.ones(4)}
LABELS = np.array([0, 1, 2, 1])


class Recording:
    """An optimizer function that keeps what it was told, in order."""

    def __init__(self):
        self.calls = []

    def register(self, model):
        self.calls.append(model)

    def __call__(self):
        self.calls.append("made")
        return v1.train.GradientDescentOptimizer(0.1)


def test_model_is_registered_before_the_optimizer_is_made(train_steps, tmp_path):
    optimizer = Recording()
    estimator = replicate.DNNClassifier(
        [5], DENSE, str(tmp_path), n_classes=3, weight_column="w", optimizer=optimizer
    )
    train_steps(estimator, FEATURES, LABELS)
    model, made = optimizer.calls
    assert made == "made"
    assert [(layer.kind, layer.kernel.shape.as_list()) for layer in model.layers] == [
        ("embedding", [3, 2]),
        ("dense", [4, 5]),
        ("dense", [5, 3]),
    ]
    assert [layer.bias is None for layer in model.layers] == [True, False, False]
    assert [layer.outputs.shape.as_list() for layer in model.layers] == [[4, 2], [4, 5], [4, 3]]
    assert len(model.variables) == 5
    (loss,) = model.losses
    assert (loss.kind, loss.coefficient, loss.logits.shape.as_list()) == ("categorical", 1, [4, 3])
    assert (model.loss_reduction, model.head) == ("sum_over_batch_size", "MultiClassHead")


def test_model_is_registered_in_each_tower(train_steps, tmp_path):
    optimizer = Recording()
    estimator = replicate.DNNClassifier(
        [5], DENSE, str(tmp_path), n_classes=3, optimizer=optimizer, devices=["/cpu:0", "/cpu:1"]
    )
    train_steps(estimator, FEATURES, LABELS)
    first, made, second = optimizer.calls
    assert made == "made"
    for one, other in zip(first.layers, second.layers, strict=True):
        assert one.kernel is other.kernel
        assert one.inputs is not other.inputs
    assert first.variables == second.variables


def test_parts_are_registered_for_their_own_optimizers(train_steps, tmp_path):
    dnn, linear = Recording(), Recording()
    estimator = replicate.DNNLinearCombinedRegressor(
        str(tmp_path),
        linear_feature_columns=[JOB, fc.numeric_column("x", [2])],
        linear_optimizer=linear,
        dnn_feature_columns=DENSE,
        dnn_optimizer=dnn,
        dnn_hidden_units=[3],
    )
    train_steps(estimator, FEATURES, LABELS.astype(np.float32))
    assert [layer.kind for layer in linear.calls[0].layers] == ["embedding", "dense"]
    assert [layer.kind for layer in dnn.calls[0].layers] == ["embedding", "dense", "dense"]
    assert linear.calls[0].losses[0].logits is dnn.calls[0].losses[0].logits
    assert len(linear.calls[0].variables) == 3


def test_nothing_is_registered_outside_of_training(graph, tmp_path):
    optimizer = Recording()
    estimator = replicate.LinearClassifier([JOB], str(tmp_path), optimizer=optimizer)
    estimator.model_fn(FEATURES, LABELS % 2, "eval", estimator.config)
    assert optimizer.calls == []


def test_unknown_losses_are_left_out_of_the_record(train_steps, tmp_path):
    head, optimizer = replicate.PoissonRegressionHead(), Recording()
    estimator = replicate.LinearEstimator(head, [JOB], str(tmp_path), optimizer=optimizer)
    train_steps(estimator, FEATURES, LABELS.astype(np.float32))
    assert optimizer.calls[0].losses is None
    assert optimizer.calls[0].head == "PoissonRegressionHead"


def test_checked_optimizer_keeps_its_names():
    checked = PartOptimizer("Adam", 0.5, "Owner", "dnn_optimizer").checked()
    assert (checked.learning_rate, checked.owner, checked.argument) == (
        0.5,
        "Owner",
        "dnn_optimizer",
    )
    assert callable(checked.given)
    with pytest.raises(ValueError, match="Owner: dnn_optimizer is named 'Best'"):
        PartOptimizer("Best", 0.5, "Owner", "dnn_optimizer").checked()
