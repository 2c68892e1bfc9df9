"""Baseline estimators: the best constant, one row of logits per example, and errors."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BaselineClassifier, BaselineRegressor
from replicate.canned.baseline import BaselinePart, weight_key
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("plain_sessions")
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)


def test_classifier_moves_to_the_frequencies_of_the_classes(tmp_path):
    """Prediction ends, though the batch size is known when the graph is built."""

    def input_fn():
        features = {"x": tf.zeros([4]), "w": tf.constant([1.0, 1.0, 1.0, 3.0])}
        return tf.data.Dataset.from_tensors((features, [0, 0, 1, 2])).repeat(2)

    estimator = BaselineClassifier(str(tmp_path), 3, "w", optimizer="SGD", config=CONFIG)
    estimator.train(input_fn, steps=1)
    predictions = list(estimator.predict(input_fn))
    assert len(predictions) == 8
    chances = np.exp(0.3 * (np.array([2, 1, 3]) - 6 / 3) / 4)
    for each in predictions:
        np.testing.assert_allclose(each["probabilities"], chances / chances.sum(), rtol=1e-5)
    assert estimator.evaluate(input_fn, steps=1)["accuracy"] == pytest.approx(3 / 6)


def test_regression_of_several_numbers_moves_to_the_means(train_steps, tmp_path):
    estimator = BaselineRegressor(str(tmp_path), 2, optimizer="SGD")
    done = train_steps(estimator, {"x": [5.0, 6.0]}, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(done.variables["baseline/bias"], [0.3 * 2, 0.3 * 3], rtol=1e-5)


def test_estimator_takes_any_head(train_steps, tmp_path):
    head = replicate.PoissonRegressionHead(compute_full_loss=False)
    estimator = replicate.BaselineEstimator(head, str(tmp_path), optimizer="SGD")
    done = train_steps(estimator, {"x": [1.0, 1.0]}, [2.0, 4.0], steps=2)
    bias = 0.3 * (3 - 1)
    np.testing.assert_allclose(done.losses, [1, np.exp(bias) - 3 * bias], rtol=1e-5)


def logits(features, weight_key=None):
    part = BaselinePart(weight_key).build(features, 2, "infer", None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        part.variables[0].load(np.array([1, 2], np.float32), session)
        return session.run(part.logits)


@pytest.mark.parametrize(
    "feature",
    [
        lambda: [1.0, 2.0, 3.0],
        lambda: tf.SparseTensor([[0, 0]], [1], [3, 9]),
        lambda: tf.ragged.constant([[1], [], [2, 3]]),
        lambda: v1.placeholder_with_default(np.ones([3, 2]), [None, 2]),
    ],
    ids=["list", "sparse", "ragged", "unknown"],
)
def test_every_example_gets_the_bias(graph, feature):
    np.testing.assert_array_equal(logits({"x": feature()}), [[1, 2]] * 3)
    assert [each.op.name for each in v1.trainable_variables()] == ["baseline/bias"]


def test_weights_are_not_counted(graph):
    assert logits({"x": [1.0, 2.0], "w": [1.0]}, weight_key="w").shape == (2, 2)
    assert weight_key(tf.feature_column.numeric_column("v")) == "v"


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ({"x": [1.0, 2.0], "y": [1.0]}, r"same number of rows\. Received \[2 1\] rows of x, y\.$"),
        ({"w": [1.0]}, r"no feature besides the weights: features has \['w'\]"),
    ],
)
def test_features_that_give_no_batch_size_are_refused(graph, features, text):
    with pytest.raises(ValueError, match=text), user_errors():
        logits(features, weight_key="w")


def test_logits_wait_for_the_input(graph):
    """A batch of known size would otherwise give logits when the input has ended."""
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}))
    part = BaselinePart(None).build(iterator.get_next(), 1, "infer", None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(part.logits)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(part.logits)
