"""Heads of TensorFlow 1, and functions of heads that libraries write."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.old_tensorflow import heads

v1 = tf.compat.v1


class MeanHead(heads.Head):
    """Head of a library that was written for TensorFlow 1."""

    @property
    def name(self):
        return "mean"

    @property
    def logits_dimension(self):
        return 1

    def create_loss(self, features, mode, logits, labels):
        return v1.losses.mean_squared_error(labels, logits)

    def create_estimator_spec(
        self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None,
        regularization_losses=None,
    ):  # fmt: skip
        loss = self.create_loss(features, mode, logits, labels)
        train_op = heads.create_estimator_spec_train_op(
            self.name, optimizer, train_op_fn=train_op_fn, regularized_training_loss=loss
        )
        heads.create_estimator_spec_summary(loss, [loss], lambda key: f"{key}/mean")
        return replicate.EstimatorSpec(mode, {"y": logits}, loss, train_op)


def test_old_heads_train_a_ready_made_estimator(tmp_path):
    columns = [tf.feature_column.numeric_column("x")]
    config = replicate.RunConfig(str(tmp_path), progress="off")
    x = np.array([0.0, 1.0], np.float32)
    data = replicate.inputs.numpy_input_fn({"x": x}, 1 + 2 * x[:, None], 2, None, shuffle=False)
    for make in (
        lambda: replicate.DNNEstimator(
            MeanHead(), [], columns, optimizer=v1.train.AdamOptimizer(0.1), batch_norm=True,
            config=config.replace(model_dir=str(tmp_path / "one")),
        ),
        lambda: replicate.DNNLinearCombinedEstimator(
            MeanHead(), linear_feature_columns=columns, linear_optimizer="Ftrl",
            config=config.replace(model_dir=str(tmp_path / "two")),
        ),
    ):  # fmt: skip
        estimator = make().train(data, steps=3)
        assert int(estimator.get_variable_value("global_step")) == 3


def test_heads_of_both_kinds_are_heads():
    made = heads.binary_logistic_or_multi_class_head(3, None, None, "sum", lambda labels, logits: 0)
    assert isinstance(made, replicate.MultiClassHead)
    assert isinstance(made, heads.Head)
    two = heads.binary_logistic_or_multi_class_head(2, "w", None, "sum")
    assert isinstance(two, replicate.BinaryClassHead)
    assert two.loss_reduction == "sum"
    with pytest.raises(TypeError, match="create_loss"):
        type("Partly", (heads.Head,), {})()


def test_parts_of_signatures(evaluate, graph):
    scores = heads.check_logits_final_dim([[1.0, 2.0]], 2)
    output = heads.classification_output(scores, 2, ["no", "yes"])
    classes, ids = evaluate([output.classes, heads.all_class_ids(scores, 2)])
    assert classes.tolist() == [[b"no", b"yes"]]
    assert ids.tolist() == [[0, 1]]
    assert heads.create_eval_metrics_tuple(len, {"a": 1, "b": None}) == (len, {"a": 1})
    assert heads.summary_key("mine", "loss") == "loss/mine"
    with pytest.raises(ValueError, match="units"):
        heads.check_logits_final_dim(scores, 3)
