"""Estimators on towers that their program did not ask replicate for.

The numbers of strategies are those of tf.estimator 2.15 with a MirroredStrategy over two CPUs.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.towers import towers_of
from replicate.tower.default_towers import DefaultTowers, default_towers

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("plain_sessions")
Reduction = v1.losses.Reduction

ROWS = np.arange(1, 13, dtype="f4").reshape(12, 1)
TWO = ["/cpu:0", "/cpu:1"]


def mirrored(devices=TWO):
    with tf.Graph().as_default():  # Eagerly it makes tensors on the devices, which must be there.
        return tf.distribute.MirroredStrategy(devices)


def make(folder, loss=tf.reduce_mean, regularizer=None, **settings):
    """Returns an Estimator whose loss is linear in its weight, which starts at 0."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable(
            "weight", [], initializer=tf.zeros, regularizer=regularizer and (lambda w: 3.0 * w)
        )
        value = loss(features * (weight + 1.0))
        if regularizer:
            value = v1.losses.get_total_loss()
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        return replicate.EstimatorSpec(
            mode,
            loss=value,
            train_op=optimizer.minimize(value, v1.train.get_global_step()),
            predictions=features,
            eval_metric_ops={"mean": v1.metrics.mean(features)},
        )

    config = replicate.RunConfig(str(folder), progress="off", **settings)
    return replicate.Estimator(model_fn, config=config)


def input_fn(rows, size=2):
    def call(input_context=None):
        contexts.append(input_context)
        return tf.data.Dataset.from_tensor_slices(ROWS[:rows]).batch(size)

    contexts = call.contexts = []
    return call


def weight_of(estimator):
    return float(estimator.get_variable_value("weight"))


def weighted(reduction):
    return lambda values: v1.losses.compute_weighted_loss(values, reduction=reduction)


@pytest.mark.parametrize(
    ("loss", "regularizer", "expected"),
    [
        (weighted(Reduction.SUM), False, -10.0),
        (tf.reduce_mean, False, -2.5),
        (tf.reduce_sum, False, -5.0),
        (weighted(Reduction.SUM_BY_NONZERO_WEIGHTS), True, -5.5),
        (weighted(Reduction.SUM), True, -16.0),
    ],
)
def test_a_strategy_gives_each_device_a_batch(tmp_path, loss, regularizer, expected):
    estimator = make(tmp_path, loss, regularizer, train_distribute=mirrored())
    batches = input_fn(6)
    estimator.train(batches, steps=1)
    assert weight_of(estimator) == expected
    [context] = batches.contexts
    assert (context.num_replicas_in_sync, context.num_input_pipelines) == (2, 1)


def test_all_devices_count_alike_and_a_last_batch_alone_is_left_out(tmp_path):
    estimator = make(tmp_path, train_distribute=mirrored()).train(input_fn(7))
    assert weight_of(estimator) == -8.75
    assert estimator.get_variable_value("global_step") == 2


def test_evaluation_takes_a_batch_for_each_device(tmp_path):
    estimator = make(tmp_path, eval_distribute=mirrored()).train(input_fn(2), steps=1)
    assert weight_of(estimator) == -1.5
    for rows, steps, mean, loss in ((7, None, 4.0, -2.1875), (8, 1, 2.5, -1.25)):
        results = estimator.evaluate(input_fn(rows), steps)
        assert (results["mean"], results["loss"]) == (mean, loss)


def test_evaluation_and_prediction_need_no_devices_of_a_training_strategy(tmp_path):
    estimator = make(tmp_path, train_distribute=mirrored(["/gpu:0", "/gpu:1"]))
    assert estimator.evaluate(input_fn(3))["mean"] == 2.0
    assert [row.tolist() for row in estimator.predict(input_fn(3))] == [[1.0], [2.0], [3.0]]


def test_a_distribute_config_is_a_strategy_and_one_device_takes_every_batch(tmp_path):
    both = SimpleNamespace(train_distribute=mirrored(), eval_distribute=None, remote_cluster=None)
    two = make(tmp_path / "two", experimental_distribute=both).train(input_fn(4))
    assert (weight_of(two), two.get_variable_value("global_step")) == (-2.5, 1)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    one = make(tmp_path / "one", train_distribute=strategy).train(input_fn(4))
    assert (weight_of(one), one.get_variable_value("global_step")) == (-5.0, 2)


def test_an_interrupted_input_continues_with_whole_groups(tmp_path):
    def stop_after_first(strategy, rows=8):
        estimator = make(tmp_path, train_distribute=strategy, continue_input=True)
        return estimator.train(input_fn(rows), steps=1)

    stop_after_first(mirrored())
    assert weight_of(stop_after_first(mirrored())) == -9.0


def test_default_towers_split_each_batch(tmp_path):
    one = make(tmp_path / "one", weighted(Reduction.SUM), True).train(input_fn(7, 3))
    with default_towers(DefaultTowers(devices=tuple(TWO))):
        two = make(tmp_path / "two", weighted(Reduction.SUM), True).train(input_fn(7, 3))
        assert two.evaluate(input_fn(7, 3))["mean"] == 4.0
    assert weight_of(one) == weight_of(two) == -37.0
    assert two.get_variable_value("global_step") == 3


def test_default_towers_take_the_place_of_a_strategys_devices(tmp_path):
    strategy = mirrored(["/gpu:0", "/gpu:1", "/gpu:2"])
    with default_towers(DefaultTowers(devices=tuple(TWO))):
        estimator = make(tmp_path, train_distribute=strategy, eval_distribute=strategy)
        assert weight_of(estimator.train(input_fn(6))) == -2.5
        assert estimator.evaluate(input_fn(6))["mean"] == 2.5


def test_a_strategy_needs_its_devices_and_a_dataset(tmp_path):
    estimator = make(tmp_path, train_distribute=mirrored(["/gpu:5"]))
    with pytest.raises(ValueError, match=r"Cannot put a tower on /device:GPU:5: this process has"):
        estimator.train(input_fn(6))
    estimator = make(tmp_path, train_distribute=mirrored())
    with pytest.raises(TypeError, match=r"tf\.data\.Dataset to give each of 2 towers a batch"):
        estimator.train(lambda: tf.constant(ROWS), steps=1)


def test_a_replicated_model_keeps_its_towers(tmp_path):
    estimator = make(tmp_path)
    replicated = estimator.with_model_fn(
        replicate.replicate_model_fn(estimator._model_fn, devices=TWO, wrap_optimizers=True)
    )
    with default_towers(DefaultTowers(devices=("/cpu:0", "/cpu:1", "/cpu:2"))):
        assert weight_of(replicated.train(input_fn(2))) == -1.5
    strategy = replicate.RunConfig(train_distribute=mirrored())
    with pytest.raises(ValueError, match=r"has a strategy .*, and the model_fn is replicated alr"):
        towers_of(replicated._model_fn, strategy, "train")


def linear(folder, **settings):
    column = tf.feature_column.numeric_column("x")
    config = replicate.RunConfig(str(folder), progress="off", **settings)
    return replicate.v1.LinearRegressor([column], optimizer="SGD", config=config)


def regression_data(size):
    def call():
        data = tf.data.Dataset.from_tensor_slices(({"x": ROWS / 10}, ROWS / 5))
        return data.batch(size)

    return call


def values(estimator):
    return [estimator.get_variable_value(name) for name in estimator.get_variable_names()]


def test_canned_estimators_sum_the_losses_of_default_towers_and_of_a_strategys_batches(tmp_path):
    one = linear(tmp_path / "one").train(regression_data(4), steps=1)
    strategy = linear(tmp_path / "two", train_distribute=mirrored())
    strategy.train(regression_data(2), steps=1)
    with default_towers(DefaultTowers(devices=tuple(TWO))):
        split = replicate.add_metrics(linear(tmp_path / "three"), lambda labels: {})
        split.train(regression_data(4), steps=1)
    for each in (strategy, split):
        for found, expected in zip(values(each), values(one), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def tpu_model_fn(features, labels, mode, params):
    sizes.append(params["batch_size"])
    weight = v1.get_variable("weight", [], initializer=tf.zeros)
    loss = tf.reduce_mean(features * weight)
    train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())
    return replicate.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


sizes = []


@pytest.mark.parametrize("rows", [1, 2])
def test_a_tpu_estimators_model_fn_finds_the_rows_of_its_tower(tmp_path, rows):
    settings = {"train_distribute": mirrored()} if rows == 2 else {}
    config = replicate.tpu.RunConfig(model_dir=str(tmp_path), progress="off", **settings)
    estimator = replicate.tpu.TPUEstimator(
        tpu_model_fn, config=config, use_tpu=False, train_batch_size=2
    )

    def batches(params):
        return tf.data.Dataset.from_tensor_slices(ROWS).batch(params["batch_size"])

    sizes.clear()
    with default_towers(DefaultTowers(devices=tuple(TWO))):
        estimator.train(batches, steps=1)
    assert sizes == [rows, rows]
    assert weight_of(estimator) == {1: -1.5, 2: -2.5}[rows]
