"""Metric objects of Keras in a graph: those of the user's own classes, on towers."""

import numpy as np
import pytest
import tensorflow as tf

import replicate

pytestmark = pytest.mark.usefixtures("plain_sessions")
X = np.random.default_rng(0).normal(size=[32, 3]).astype("f4")


def largest_class(keras):
    class Largest(keras.metrics.Metric):
        """The largest output: no sum, and its result is its variable."""

        def __init__(self, name="largest", **named):
            super().__init__(name=name, **named)
            self.kept = self.add_weight(shape=(), initializer="zeros", name="kept")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.kept.assign(tf.maximum(self.kept, tf.reduce_max(y_pred)))

        def result(self):
            return self.kept

    return Largest


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
@pytest.mark.parametrize("towers", [1, 2])
def test_metric_of_a_class_of_ones_own_on_towers(name, towers, tmp_path):
    keras = pytest.importorskip(name)
    inputs = keras.Input([3])
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    kernel = model.get_weights()[0]
    largest = largest_class(keras)
    model.compile("sgd", "mse", metrics=[largest()])
    estimator = replicate.model_to_estimator(
        model,
        custom_objects={"Largest": largest},
        model_dir=str(tmp_path),
        config=replicate.RunConfig(progress="off"),
        devices=["/cpu:0"] * towers,
    )
    found = estimator.evaluate(lambda: tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(8))
    np.testing.assert_allclose(found["largest"], (X @ kernel).max(), rtol=1e-5)
