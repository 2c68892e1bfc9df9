"""The names of TensorFlow 1 and their default loss."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import v1

X = tf.feature_column.numeric_column("x")
CLASSES = {
    "BaselineClassifier": {},
    "BaselineRegressor": {},
    "DNNClassifier": {"hidden_units": [2], "feature_columns": [X]},
    "DNNLinearCombinedClassifier": {"linear_feature_columns": [X]},
    "DNNLinearCombinedRegressor": {"linear_feature_columns": [X]},
    "DNNRegressor": {"hidden_units": [2], "feature_columns": [X]},
    "LinearClassifier": {"feature_columns": [X]},
    "LinearRegressor": {"feature_columns": [X]},
}


@pytest.mark.parametrize("name", CLASSES)
def test_default_loss_is_the_sum(name, graph, tmp_path):
    tf.compat.v1.train.create_global_step()
    features = {"x": tf.zeros([4, 1])}
    labels = tf.constant([[0.0], [1.0], [1.0], [1.0]])
    losses = []
    for module in (v1, replicate):
        estimator = getattr(module, name)(model_dir=str(tmp_path), **CLASSES[name])
        assert isinstance(estimator, getattr(replicate, name))
        with tf.compat.v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
            spec = estimator.model_fn(features, labels, "eval", estimator.config)
        losses.append(spec.loss)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        total, mean = session.run(losses)
    np.testing.assert_allclose(total, 4 * mean, rtol=1e-6)
    assert mean > 0


def test_other_names_are_those_of_the_package():
    assert v1.Estimator is replicate.Estimator
    assert v1.DNNEstimator is replicate.DNNEstimator
    assert set(v1.__all__) == set(replicate.__all__) <= set(dir(v1))
    with pytest.raises(AttributeError, match="_nothing"):
        v1._nothing  # noqa: B018


def test_reduction_can_be_chosen(tmp_path):
    mean = v1.LinearRegressor(
        [X], str(tmp_path), loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE
    )
    assert isinstance(mean, v1.LinearRegressor)
