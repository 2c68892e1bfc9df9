"""Optimizers by name, object and function: steps against NumPy, calls, and errors."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate import TowerOptimizer, replicate_model_fn
from replicate.canned.optimizers import checked_optimizer, resolved_optimizer
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
keras = tf.keras.optimizers
RATE = 0.05


def step_of(optimizer):
    """Makes a step from 0 with gradient -2, and returns the variable."""
    weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    train_op = optimizer.minimize(-2.0 * weight)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        return session.run(weight)


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("Adagrad", 0.1 / np.sqrt(4.1)),
        ("Adam", 0.05),
        ("Ftrl", 0.1 / np.sqrt(4.1)),
        ("RMSProp", 0.1 / np.sqrt(1.3)),
        ("SGD", 0.1),
    ],
)
def test_name_stands_for_an_optimizer_with_its_defaults(graph, name, moved):
    made = resolved_optimizer(name, RATE, "DNNClassifier")
    np.testing.assert_allclose(step_of(made), moved, rtol=1e-5)


def test_each_graph_gets_an_optimizer_of_its_own():
    checked = checked_optimizer("Adam", RATE, "DNNClassifier")
    moved = []
    for _ in range(2):
        with tf.Graph().as_default():
            moved.append(step_of(resolved_optimizer(checked, RATE, "DNNClassifier")))
    np.testing.assert_allclose(moved, [0.05, 0.05], rtol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        v1.train.AdamOptimizer(0.1),
        TowerOptimizer(v1.train.AdamOptimizer(0.1)),
        mock.create_autospec(v1.train.Optimizer, instance=True),
    ],
    ids=["optimizer", "tower", "mock"],
)
def test_given_optimizer_is_passed_on_as_it_is(graph, given):
    assert checked_optimizer(given, RATE, "DNNClassifier") is given
    assert resolved_optimizer(given, RATE, "DNNClassifier") is given


def test_function_is_called_in_the_graph_and_may_use_the_global_step(graph):
    v1.train.create_global_step()
    calls = []

    def make():
        calls.append(v1.get_default_graph())
        rate = v1.train.exponential_decay(0.1, v1.train.get_global_step(), 1, 0.5)
        return v1.train.GradientDescentOptimizer(rate)

    checked = checked_optimizer(make, RATE, "DNNClassifier")
    assert checked is make
    assert calls == []
    np.testing.assert_allclose(step_of(resolved_optimizer(checked, RATE, "x")), 0.2, rtol=1e-6)
    assert calls == [graph]


@pytest.mark.parametrize(
    ("make_given", "is_tower_optimizer"),
    [
        (lambda: "Adagrad", False),
        (lambda: v1.train.AdagradOptimizer(RATE), False),
        (lambda: lambda: v1.train.AdagradOptimizer(RATE), False),
        (lambda: lambda: TowerOptimizer(v1.train.AdagradOptimizer(RATE)), True),
        (lambda: TowerOptimizer(v1.train.AdagradOptimizer(RATE)), True),
    ],
    ids=["name", "optimizer", "function", "function of a tower's", "tower's"],
)
def test_towers_sum_gradients_before_one_step(graph, make_given, is_tower_optimizer):
    given, got = make_given(), []

    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_sum(features) * weight
        got.append(resolved_optimizer(given, RATE, "DNNClassifier"))
        train_op = got[-1].minimize(loss, v1.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    v1.train.create_global_step()
    towers = replicate_model_fn(model_fn, v1.losses.Reduction.SUM, ["/cpu:0", "/cpu:1"])
    spec = towers(tf.constant([[-0.5], [-1.5]]), None, ModeKeys.TRAIN)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        weight, step = session.run([*v1.trainable_variables(), v1.train.get_global_step()])
    np.testing.assert_allclose(weight, 0.1 / np.sqrt(4.1), rtol=1e-5)
    assert step == 1
    assert len(got) == 2
    assert (got[0] is got[1]) == is_tower_optimizer
    assert all(isinstance(each, TowerOptimizer) for each in got)
    assert not isinstance(got[0].wrapped, TowerOptimizer)


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError,
        match=r"LinearClassifier: optimizer is named 'adam', but the names are Adagrad, Adam, "
        r"Ftrl, RMSProp, SGD\. Correct it",
    ):
        checked_optimizer("adam", RATE, "LinearClassifier")


@pytest.mark.parametrize("given", [None, 0.1, v1.train.AdamOptimizer])
def test_other_values_are_refused(given):
    with pytest.raises(ValueError, match=r"Combined: dnn_optimizer must be one of .* got "):
        checked_optimizer(given, RATE, "Combined", "dnn_optimizer")


def test_function_that_makes_no_optimizer_is_refused(graph):
    with pytest.raises(ValueError, match=r"optimizer must make a .* got 0\.1 from .*AdamOptim"):
        resolved_optimizer(lambda: 0.1, RATE, "DNNClassifier")


@pytest.mark.parametrize("towers", [None, 2])
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: keras.SGD(0.2), [0.2, 0.2]),
        (lambda: keras.SGD(keras.schedules.ExponentialDecay(0.2, 1, 0.5)), [0.2, 0.1]),
        (lambda: keras.SGD(0.2, momentum=0.5), [0.2, 0.3]),
    ],
    ids=["constant", "schedule", "momentum"],
)
def test_function_may_make_an_optimizer_of_keras(graph, make, expected, towers):
    check_made_by_function(make, expected, towers)


def test_tensor_as_learning_rate_of_keras_2_follows_the_global_step(graph, keras2):
    def make():
        rate = v1.train.exponential_decay(0.2, v1.train.get_global_step(), 1, 0.5)
        return keras2.optimizers.SGD(rate)

    check_made_by_function(make, [0.2, 0.1], None)


def check_made_by_function(make, expected, towers):
    """Checks two steps with gradient 1 by an optimizer of Keras, and that it adds no variable."""
    step = v1.train.create_global_step()

    def model_fn(features, mode):
        weight = v1.get_variable("w", initializer=1.0)
        optimizer = resolved_optimizer(make, RATE, "DNNClassifier")
        train_op = optimizer.minimize(weight, step)
        return EstimatorSpec(mode, loss=weight + 0.0 * tf.reduce_sum(features), train_op=train_op)

    if towers:
        model_fn = replicate_model_fn(model_fn, devices=["/cpu:0"] * towers)
        spec = model_fn(tf.ones([towers]), None, ModeKeys.TRAIN)
    else:
        spec = model_fn(tf.ones([1]), ModeKeys.TRAIN)
    names = {variable.op.name for variable in v1.global_variables()}
    assert names <= {"global_step", "w", "w/Momentum"}
    (weight,) = v1.trainable_variables()
    values = [1.0]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(2):
            session.run(spec.train_op)
            values.append(session.run(weight))
    np.testing.assert_allclose(-np.diff(values), expected, rtol=1e-5)


def test_function_that_makes_an_untranslatable_optimizer_of_keras_is_refused(graph):
    with pytest.raises(ValueError, match=r"optimizer=SGD\(\.\.\.\) of Keras has clipnorm=1\.0"):
        resolved_optimizer(lambda: keras.SGD(0.1, clipnorm=1.0), RATE, "DNNClassifier")
