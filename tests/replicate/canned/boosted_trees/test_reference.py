"""Boosted trees beside those of tf.estimator 2.8, the last release that could train them.

The numbers were measured with TensorFlow 2.8.4, on the same data and arguments: steps until
training stops by itself, the predictions of six examples, the evaluation loss, the gain by column,
and the explanation of the first example.
"""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from tests.replicate.canned.boosted_trees import data

pytestmark = pytest.mark.usefixtures("plain_sessions")

LABELS = {"binary": data.BINARY, "numbers": data.NUMBERS, "three": data.THREE}

CASES = {
    # Labels, columns, arguments, and what tf.estimator found.
    "numeric in batches": (
        "numbers",
        "numeric indicator",
        {"n_batches_per_layer": 3, "n_trees": 3, "max_depth": 3, "quantile_sketch_epsilon": 0.1},
        {
            "steps": 27,
            "predictions": [0.094233, 0.20937, -0.010439, 0.408028, -0.456434, 0.587472],
            "loss": 0.945083,
            "importances": {"b": 0.54426, "kind": 0.45574},
        },
    ),
    "weights and bias": (
        "binary",
        "bucketized numeric",
        {
            "n_batches_per_layer": 2,
            "n_trees": 3,
            "max_depth": 2,
            "weight_column": "weight",
            "center_bias": True,
            "l1_regularization": 0.001,
            "min_node_weight": 0.02,
        },
        {
            "steps": 16,
            "predictions": [0.662183, 0.355212, 0.355212, 0.492613, 0.355212, 0.662183],
            "loss": 1.032145,
            "importances": {"a_bucketized": 0.819217, "b": 0.180783},
            "bias": 0.514833,
            "dfc": {"a_bucketized": 0.104305, "b": 0.043045},
        },
    ),
    "pruned before": (
        "numbers",
        "bucketized indicator",
        {
            "n_batches_per_layer": 1,
            "n_trees": 3,
            "max_depth": 3,
            "pruning_mode": "pre",
            "tree_complexity": 0.05,
        },
        {
            "steps": 19,  # No tree is finished: more than 2 · n_trees · max_depth attempts end it.
            "predictions": [-0.003499, 0.084204, -0.003499, 0.084204, -0.003499, 0.084204],
            "loss": 1.293176,
            "importances": {"kind": 0.334599, "a_bucketized": 0.0},
        },
    ),
    "pruned after": (
        "numbers",
        "bucketized indicator",
        {
            "n_batches_per_layer": 1,
            "n_trees": 3,
            "max_depth": 3,
            "pruning_mode": "post",
            "tree_complexity": 0.05,
            "center_bias": True,
            "train_in_memory": True,
        },
        {
            "steps": 11,
            "predictions": [0.216571, 0.522364, 0.216571, 0.522364, 0.121366, 0.522364],
            "loss": 1.081127,
            "importances": {"kind": 0.704361, "a_bucketized": -0.015732},
            "bias": 0.403525,
            "dfc": {"kind": -0.105754, "a_bucketized": -0.0812},
        },
    ),
    "categories": (
        "numbers",
        "bucketized categorical",
        {"n_batches_per_layer": 1, "n_trees": 3, "max_depth": 2},
        {
            "steps": 6,
            "predictions": [-0.042417, 0.365261, -0.042417, 0.442012, -0.042417, 0.365261],
            "loss": 1.097186,
        },
    ),
    "three classes": (
        "three",
        "bucketized indicator",
        {
            "n_batches_per_layer": 1,
            "n_trees": 2,
            "max_depth": 2,
            "n_classes": 3,
            "l2_regularization": 0.01,
        },
        {
            "steps": 4,
            "predictions": [0.263369, 0.385013, 0.263369, 0.349985, 0.263369, 0.385013],
            "loss": 0.989036,
            "importances": {"a_bucketized": 1.0, "kind": 0.0},
        },
    ),
}
BROAD = {"pruned before", "categories", "three classes"}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.broad] * (name in BROAD)) for name in CASES]
)
def test_trees_are_those_of_tf_estimator(tmp_path, case):
    kind, names, arguments, expected = CASES[case]
    labels = LABELS[kind]
    is_number = kind == "numbers"
    made = replicate.BoostedTreesRegressor if is_number else replicate.BoostedTreesClassifier
    model = made(data.columns(*names.split()), model_dir=tmp_path, config=data.CONFIG, **arguments)
    size = len(labels) // arguments["n_batches_per_layer"]

    once = data.batch(labels, 1)
    model.train(
        lambda: tf.data.Dataset.from_tensor_slices((data.FEATURES, labels)).batch(size).repeat()
    )
    assert model.get_variable_value("global_step") == expected["steps"]
    key = "predictions" if is_number else "probabilities"
    found = [each[key][-1] for each in model.predict(once)]
    np.testing.assert_allclose(found[:6], expected["predictions"], atol=1e-5)
    assert model.evaluate(once)["loss"] == pytest.approx(expected["loss"], abs=1e-5)
    if "importances" in expected:
        is_pruned = "pruning_mode" in arguments
        importances = model.experimental_feature_importances(normalize=not is_pruned)
        assert list(importances) == list(expected["importances"])
        assert importances == pytest.approx(expected["importances"], abs=1e-5)
    if "bias" in expected:
        explained = next(model.experimental_predict_with_explanations(once))
        assert explained["bias"] == pytest.approx(expected["bias"], abs=1e-5)
        assert list(explained["dfc"]) == list(expected["dfc"])
        assert explained["dfc"] == pytest.approx(expected["dfc"], abs=1e-5)
