"""The argument `devices`: towers, and how their losses add up."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.linear import LinearRegressor
from replicate.canned.replication import on_devices

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x")
BATCH = {"x": [1.0, 2.0, 3.0, 4.0, 5.0]}, [1.0, -1.0, 2.0, 0.0, 3.0]


def test_without_devices_the_model_fn_is_the_same():
    assert on_devices(train_nothing, None, None) is train_nothing


def train_nothing():
    """A model_fn that is not called."""


@pytest.mark.parametrize(
    "reduction", ["sum", "sum_over_batch_size", "weighted_sum", "weighted_mean"]
)
def test_towers_of_unequal_size_train_as_one(reduction, train_steps, tmp_path):
    """Gradient descent on 5 rows by 2 towers, against NumPy."""
    estimator = LinearRegressor(
        [X],
        str(tmp_path),
        optimizer=lambda: v1.train.GradientDescentOptimizer(0.01),
        loss_reduction=reduction,
        devices=["/cpu:0", "/cpu:1"],
    )
    done = train_steps(estimator, *BATCH, steps=3)
    x, y = np.array(BATCH[0]["x"]), np.array(BATCH[1])
    weight = bias = 0.0
    factor = 1.0 if reduction in ("sum", "weighted_sum") else 1 / 5
    losses = []
    for _ in range(3):
        error = weight * x + bias - y
        losses.append(factor * (error**2).sum())
        weight -= 0.01 * factor * (2 * error * x).sum()
        bias -= 0.01 * factor * (2 * error).sum()
    np.testing.assert_allclose(done.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(
        done.variables["linear/linear_model/x/weights"], [[weight]], rtol=1e-5
    )


def test_device_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Cannot put a tower on /device:GPU:77"):
        LinearRegressor([X], str(tmp_path), devices=["/gpu:77"])
