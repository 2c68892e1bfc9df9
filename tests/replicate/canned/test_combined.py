"""Estimators of a network and a linear model: their sum, their two optimizers, and errors."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import DNNLinearCombinedClassifier, DNNLinearCombinedRegressor
from replicate.canned import combined_model

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column
X = fc.numeric_column("x")
ZERO = {"dnn/logits/kernel": np.zeros([1, 1], np.float32)}
HALF = {"dnn/hiddenlayer_0/kernel": np.full([1, 1], 0.5, np.float32)}


def regressor(model_dir, **arguments):
    columns = {"linear_feature_columns": [X], "dnn_feature_columns": [X], "dnn_hidden_units": [1]}
    return DNNLinearCombinedRegressor(str(model_dir), **{**columns, **arguments})


def test_each_part_has_its_own_optimizer_and_rate(train_steps, tmp_path):
    """Both parts start at 0 and see the gradient −2."""
    estimator = regressor(tmp_path, linear_optimizer="SGD", dnn_optimizer="SGD")
    done = train_steps(estimator, {"x": [1.0]}, [1.0], initial={**ZERO, **HALF})
    assert done.losses == [1]
    np.testing.assert_allclose(
        done.variables["linear/linear_model/x/weights"], [[0.005 * 2]], rtol=1e-5
    )
    np.testing.assert_allclose(done.variables["dnn/logits/bias"], [0.001 * 2], rtol=1e-5)
    np.testing.assert_allclose(done.variables["dnn/logits/kernel"], [[0.001]], rtol=1e-5)


def test_logits_are_the_sum(graph, tmp_path):
    v1.train.create_global_step()
    estimator = regressor(tmp_path)
    spec = estimator.model_fn({"x": [[2.0]]}, None, "infer", estimator.config)
    values = {"dnn/hiddenlayer_0/kernel": 3, "dnn/logits/kernel": 5, "dnn/logits/bias": 7}
    values |= {"linear/linear_model/x/weights": 11, "linear/linear_model/bias_weights": 13}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable in v1.trainable_variables():
            value = values.get(variable.op.name, 0)
            variable.load(np.full(variable.shape, value, np.float32), session)
        assert session.run(spec.predictions["predictions"]) == 2 * 3 * 5 + 7 + 2 * 11 + 13


def test_one_part_is_enough(train_steps, tmp_path):
    linear = regressor(tmp_path, dnn_feature_columns=None, dnn_hidden_units=None)
    assert "dnn/logits/bias" not in train_steps(linear, {"x": [1.0]}, [1.0], steps=2).variables
    network = regressor(tmp_path, linear_feature_columns=[])
    found = train_steps(network, {"x": [1.0]}, [1.0], steps=2).variables
    assert not [name for name in found if name.startswith("linear")]


def test_summaries_of_training(graph, tmp_path, evaluate):
    v1.train.create_global_step()
    estimator = regressor(tmp_path)
    estimator.model_fn({"x": [[2.0]]}, [1.0], "train", estimator.config)
    summary = v1.Summary.FromString(evaluate(v1.summary.merge_all()))
    layers, kinds = (
        ("dnn/hiddenlayer_0", "dnn/logits", "linear"),
        ("activation", "fraction_of_zero_values"),
    )
    wanted = {f"{layer}/{kind}" for layer in layers for kind in kinds}
    assert {value.tag for value in summary.value} == wanted | {
        "bias",
        "fraction_of_zero_weights",
        "loss",
    }


def test_towers_of_two_optimizers_train_together(train_steps, tmp_path):
    batch = {"x": [1.0, 2.0, 3.0]}, [1.0, 0.0, 1.0]
    losses = []
    for devices in (None, ["/cpu:0", "/cpu:1"]):
        estimator = regressor(
            tmp_path,
            devices=devices,
            dnn_optimizer=lambda: replicate.TowerOptimizer(v1.train.AdamOptimizer(0.1)),
        )
        initial = {**HALF, "dnn/logits/kernel": np.ones([1, 1], np.float32)}
        losses.append(train_steps(estimator, *batch, steps=5, initial=initial).losses)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_classifier_trains_both_parts(train_steps, tmp_path):
    """The loss of three classes at logits 0 is log 3, with weights Σ w·l / rows."""
    columns = {"linear_feature_columns": [X], "dnn_feature_columns": [X], "dnn_hidden_units": [1]}
    estimator = DNNLinearCombinedClassifier(
        str(tmp_path), **columns, linear_optimizer="SGD", n_classes=3, weight_column="w"
    )
    zero = {"dnn/logits/kernel": np.zeros([1, 3], np.float32)}
    features = {"x": [1.0, 2.0], "w": [1.0, 3.0]}
    done = train_steps(estimator, features, [0, 2], initial=zero)
    np.testing.assert_allclose(done.losses, [4 / 2 * np.log(3)], rtol=1e-6)
    for bias in ("linear/linear_model/bias_weights", "dnn/logits/bias"):
        assert np.sign(done.variables[bias]).tolist() == [-1, -1, 1]


def test_warm_start_is_taken_by_the_estimator_of_a_head(tmp_path):
    estimator = replicate.DNNLinearCombinedEstimator(
        replicate.RegressionHead(),
        str(tmp_path),
        linear_feature_columns=[X],
        warm_start_from=str(tmp_path / "none"),
    )
    with pytest.raises(replicate.CheckpointError, match="none"):
        estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])))


def test_rate_of_the_linear_model_falls_with_its_columns(monkeypatch):
    monkeypatch.setattr(combined_model, "LINEAR_RATE", 1.0)
    columns = [fc.numeric_column(name) for name in "abcd"]
    settings = combined_model.CombinedSettings(
        columns, "Ftrl", None, "Adagrad", None, None, None, False, "sum", None
    )
    (linear,) = settings.parts("Owner")
    assert linear.optimizer.learning_rate == 1 / 2


def test_synchronous_optimizers_are_refused_for_two_parts(train_steps, tmp_path):
    def make():
        return v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1)

    for given in (make, lambda: replicate.TowerOptimizer(make())):
        estimator = regressor(tmp_path, linear_optimizer=given)
        with pytest.raises(ValueError, match="cannot train two parts by a SyncReplicasOptimizer"):
            train_steps(estimator, {"x": [1.0]}, [1.0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"linear_feature_columns": None, "dnn_feature_columns": []},
            "Regressor needs linear_feature_columns, dnn_feature_columns or both, got neither",
        ),
        ({"dnn_hidden_units": None}, "dnn_feature_columns need dnn_hidden_units, .* got None"),
        ({"dnn_dropout": 2}, "dnn_dropout must be in"),
        ({"linear_optimizer": "Best"}, "Regressor: linear_optimizer is named 'Best'"),
        ({"dnn_optimizer": "Best"}, "Regressor: dnn_optimizer is named 'Best'"),
        ({"linear_sparse_combiner": "max"}, "linear_sparse_combiner must be one of"),
    ],
)
def test_wrong_arguments_are_refused(arguments, text, tmp_path):
    with pytest.raises(ValueError, match=text):
        regressor(tmp_path, **arguments)
