"""Baseline estimators: the best constant, one row of logits per example, and errors."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BaselineClassifier, BaselineRegressor
from replicate.canned.baseline import BaselinePart, weight_key
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
ROOT = 4.1**0.5
STEPS = {"Adagrad": 2 / ROOT, "Adam": 1.0, "Ftrl": 2 / ROOT, "RMSProp": 2 / 1.3**0.5, "SGD": 2.0}
"""One step from 0 with gradient −2, for each unit of the learning rate."""
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)


@pytest.mark.parametrize("name", STEPS)
def test_named_optimizer_has_the_rate_of_baselines(name, train_steps, tmp_path):
    estimator = BaselineRegressor(str(tmp_path), optimizer=name)
    done = train_steps(estimator, {"x": [5.0, 6.0]}, [1.0, 1.0])
    np.testing.assert_allclose(done.variables["baseline/bias"], [0.3 * STEPS[name]], rtol=1e-5)


def input_fn():
    features = {"x": tf.zeros([4]), "w": tf.constant([1.0, 1.0, 1.0, 3.0])}
    return tf.data.Dataset.from_tensors((features, [0, 0, 1, 2])).repeat(300)


def test_learns_the_frequencies_of_the_classes(tmp_path):
    """Prediction ends, though the batch size is known when the graph is built."""
    estimator = BaselineClassifier(str(tmp_path), 3, "w", config=CONFIG).train(input_fn)
    predictions = list(estimator.predict(lambda: input_fn().take(2)))
    assert len(predictions) == 8
    np.testing.assert_allclose(predictions[0]["probabilities"], [2 / 6, 1 / 6, 3 / 6], atol=0.01)
    assert estimator.evaluate(input_fn, steps=1)["accuracy"] == pytest.approx(3 / 6)


def test_regression_of_several_numbers_learns_the_means(tmp_path):
    def numbers():
        labels = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
        return tf.data.Dataset.from_tensors(({"x": [0.0, 0.0]}, labels)).repeat(300)

    estimator = BaselineRegressor(str(tmp_path), 2, config=CONFIG).train(numbers)
    np.testing.assert_allclose(estimator.get_variable_value("baseline/bias"), [2, 3], atol=0.01)


def test_estimator_takes_any_head(train_steps, tmp_path):
    head = replicate.PoissonRegressionHead(compute_full_loss=False)
    estimator = replicate.BaselineEstimator(head, str(tmp_path), optimizer="SGD")
    done = train_steps(estimator, {"x": [1.0, 1.0]}, [2.0, 4.0], steps=2)
    bias = 0.3 * (3 - 1)
    np.testing.assert_allclose(done.losses, [1, np.exp(bias) - 3 * bias], rtol=1e-5)


def test_key_of_weights():
    assert weight_key(None) is None
    assert weight_key("w") == "w"
    assert weight_key(tf.feature_column.numeric_column("v")) == "v"


def test_unknown_optimizer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="BaselineRegressor: optimizer is named 'Best'"):
        BaselineRegressor(str(tmp_path), optimizer="Best")


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


def test_features_must_have_equally_many_rows(graph):
    text = r"same number of rows\. Received \[2 1\] rows of x, y\.$"
    with pytest.raises(ValueError, match=text), user_errors():
        logits({"x": [1.0, 2.0], "y": [1.0]})


def test_weights_are_not_counted(graph):
    assert logits({"x": [1.0, 2.0], "w": [1.0]}, weight_key="w").shape == (2, 2)


def test_weights_alone_give_no_batch_size(graph):
    with pytest.raises(ValueError, match=r"no feature besides the weights: features has \['w'\]"):
        logits({"w": [1.0]}, weight_key="w")


def test_logits_wait_for_the_input(graph):
    """A batch of known size would otherwise give logits when the input has ended."""
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}))
    part = BaselinePart(None).build(iterator.get_next(), 1, "infer", None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(part.logits)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(part.logits)
