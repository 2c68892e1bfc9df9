"""Tensors of ready-made estimators have the names that programs log and fetch."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import v1 as estimator_v1

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x")
W = {"weight_column": "w"}
MEAN = v1.losses.Reduction.SUM_OVER_BATCH_SIZE


@pytest.mark.parametrize(
    ("scope", "make"),
    [
        ("linear/", lambda: estimator_v1.LinearClassifier([X], n_classes=3, **W)),
        ("dnn/", lambda: estimator_v1.DNNClassifier([2], [X], loss_reduction=MEAN, **W)),
        ("", lambda: replicate.DNNLinearCombinedClassifier(None, [X], "SGD", [X], "SGD", [2], **W)),
        ("", lambda: replicate.BaselineRegressor(**W)),
    ],
)
@pytest.mark.parametrize("devices", [1, 2])
def test_losses_and_predictions_are_found_by_name(scope, make, devices, graph):
    features = {"x": tf.constant([[1.0], [2.0]]), "w": tf.constant([1.0, 3.0])}
    labels = tf.constant([[0], [1]])
    estimator = make()
    model_fn = estimator.model_fn
    if devices > 1:
        model_fn = replicate.replicate_model_fn(
            model_fn, devices=["/cpu:0"] * devices, wrap_optimizers=True
        )
    v1.train.create_global_step()
    spec = model_fn(features, labels, "train", estimator.config)
    is_regressor = isinstance(estimator, replicate.BaselineRegressor)
    keys = () if is_regressor else ("probabilities", "class_ids", "logits", "str_classes")
    names = ["weighted_loss/Sum", "weighted_loss/value", "truediv", "labels", "logits"]
    names += [f"predictions/{key}" for key in keys]
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        found = session.run({name: f"{scope}head/{name}:0" for name in names})
        predictions, loss = session.run([spec.predictions, spec.loss])
    rows = 2 // devices
    np.testing.assert_array_equal(found["labels"], [[0], [1]][:rows])
    assert found["logits"].shape[0] == rows
    for key in keys:
        whole = predictions[{"str_classes": "classes"}.get(key, key)]
        np.testing.assert_array_equal(found[f"predictions/{key}"], whole[:rows])
    weights = 4 if devices == 1 else 1
    np.testing.assert_allclose(found["truediv"], found["weighted_loss/Sum"] / weights, rtol=1e-6)
    if devices == 1:
        np.testing.assert_allclose(found["weighted_loss/value"], loss, rtol=1e-6)
        means = scope != "linear/"
        np.testing.assert_allclose(
            found["weighted_loss/Sum"], loss * (2 if means else 1), rtol=1e-6
        )
