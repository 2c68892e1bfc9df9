"""Optimizers by name, object, function, and of Keras: steps against NumPy, and errors."""

import logging
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate import TowerOptimizer, replicate_model_fn
from replicate.canned.keras_optimizers import translation
from replicate.canned.optimizers import checked_optimizer, resolved_optimizer
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
RATE = 0.05
START = np.array([1.0, -2.0], np.float32)
GRADIENT = np.array([0.5, -3.0], np.float32)

keras = tf.keras.optimizers


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
def test_name_stands_for_an_optimizer_with_its_defaults(name, moved):
    checked = checked_optimizer(name, RATE, "DNNClassifier")
    for _ in range(2):  # Each graph gets an optimizer of its own.
        with tf.Graph().as_default():
            made = resolved_optimizer(checked, RATE, "DNNClassifier")
            np.testing.assert_allclose(step_of(made), moved, rtol=1e-5)


def test_given_optimizer_is_passed_on_as_it_is(graph):
    for given in (v1.train.AdamOptimizer(0.1), mock.create_autospec(v1.train.Optimizer)(0, "")):
        assert checked_optimizer(given, RATE, "DNNClassifier") is given
        assert resolved_optimizer(given, RATE, "DNNClassifier") is given


@pytest.mark.parametrize(
    ("make_given", "is_tower_optimizer"),
    [
        (lambda: "Adagrad", False),
        (lambda: lambda: v1.train.AdagradOptimizer(RATE), False),
        (lambda: lambda: keras.Adagrad(RATE), False),
        (lambda: lambda: TowerOptimizer(v1.train.AdagradOptimizer(RATE)), True),
        (lambda: TowerOptimizer(v1.train.AdagradOptimizer(RATE)), True),
    ],
    ids=["name", "function", "function of Keras", "function of a tower's", "tower's"],
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
    assert {each.op.name for each in v1.global_variables()} == {"global_step", "w", "w/Adagrad"}
    assert len(got) == 2
    assert (got[0] is got[1]) == is_tower_optimizer
    assert all(isinstance(each, TowerOptimizer) for each in got)
    assert not isinstance(got[0].wrapped, TowerOptimizer)


NAMES = r"'adam', but the names are Adagrad, Adam, Ftrl, RMSProp, SGD\. Correct it"


@pytest.mark.parametrize(
    ("check", "given", "text"),
    [
        (checked_optimizer, "adam", f"Owner: dnn_optimizer is named {NAMES}"),
        (checked_optimizer, None, "Owner: dnn_optimizer must be one of .* got None"),
        (checked_optimizer, v1.train.AdamOptimizer, "Owner: dnn_optimizer must be one of .* got "),
        (resolved_optimizer, lambda: 0.1, r"dnn_optimizer must make a .* got 0\.1 from .*AdamOpt"),
        (resolved_optimizer, lambda: keras.SGD(clipnorm=1.0),
         r"SGD\(\.\.\.\) of Keras has clipnorm"),
    ],
)  # fmt: skip
def test_what_makes_no_optimizer_is_refused(graph, check, given, text):
    with pytest.raises(ValueError, match=text):
        check(given, RATE, "Owner", "dnn_optimizer")


def steps_of(make, count=3):
    """Makes steps with a constant gradient in a new graph, and returns the variable after each."""
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        weight = v1.get_variable("w", initializer=START)
        train_op = make().minimize(tf.reduce_sum(GRADIENT * weight), step)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [(session.run(train_op), session.run(weight))[1] for _ in range(count)]


def moved(*rates):
    """The variable after steps at these rates."""
    return START - np.cumsum(rates)[:, None] * GRADIENT


@pytest.mark.parametrize(
    ("make", "rates"),
    [
        (lambda: keras.SGD(keras.schedules.ExponentialDecay(0.2, 1, 0.5)), [0.2, 0.1, 0.05]),
        (lambda: keras.SGD(0.2, momentum=0.5), [0.2, 0.3, 0.35]),
    ],
    ids=["schedule", "momentum"],
)
def test_function_may_make_an_optimizer_of_keras(make, rates):
    got = steps_of(lambda: resolved_optimizer(make, RATE, "DNNClassifier"))
    np.testing.assert_allclose(got, moved(*rates), rtol=1e-5)


def test_tensor_as_learning_rate_of_keras_2_follows_the_global_step(keras2):
    def make():
        rate = v1.train.exponential_decay(0.2, v1.train.get_global_step(), 1, 0.5)
        return keras2.optimizers.SGD(rate)

    got = steps_of(lambda: resolved_optimizer(make, RATE, "DNNClassifier"))
    np.testing.assert_allclose(got, moved(0.2, 0.1, 0.05), rtol=1e-5)


def translated_steps(optimizer):
    return steps_of(translation(optimizer, "DNNClassifier", "optimizer"))


def keras_steps(optimizer, count=3):
    """Makes the same steps eagerly by Keras."""
    weight = tf.Variable(START)
    values = []
    for _ in range(count):
        optimizer.apply_gradients([(tf.constant(GRADIENT), weight)])
        values.append(weight.numpy())
    return values


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.SGD(0.1, momentum=0.9),
        lambda: keras.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: keras.SGD(0.1, global_clipnorm=0.2),
        lambda: keras.SGD(keras.schedules.ExponentialDecay(0.1, 2, 0.5)),
        lambda: keras.Adagrad(0.1, initial_accumulator_value=0.2, epsilon=0.01),
        lambda: keras.Adam(0.1, beta_1=0.8, beta_2=0.99, epsilon=0.1),
        lambda: keras.Ftrl(
            0.1, -0.6, 0.2, 0.01, 0.02, l2_shrinkage_regularization_strength=0.03, beta=0.1
        ),
    ],
    ids=["momentum", "nesterov", "clipped", "schedule", "adagrad", "adam", "ftrl"],
)
def test_steps_are_those_of_keras(make):
    got, expected = translated_steps(make()), keras_steps(make())
    np.testing.assert_allclose(got, expected, rtol=2e-6)
    assert not np.allclose(got[0], START, atol=1e-3)


def test_rmsprop_starts_at_one_and_says_so(own_log):
    with own_log.at_level(logging.WARNING):
        make = translation(keras.RMSprop(0.1, rho=0.8, epsilon=0.1), "DNNClassifier", "optimizer")
    assert "its mean square starts at 1 here and at 0 in Keras" in own_log.text
    mean_square = 0.8 * 1 + 0.2 * GRADIENT**2
    expected = START - 0.1 * GRADIENT / np.sqrt(mean_square + 0.1)
    np.testing.assert_allclose(steps_of(make)[0], expected, rtol=1e-5)


def test_decay_of_legacy_optimizers_follows_the_global_step():
    legacy = legacy_module()
    got = translated_steps(legacy.SGD(0.1, decay=0.5))
    np.testing.assert_allclose(got, moved(0.1, 0.1 / 1.5, 0.1 / 2), rtol=1e-6)
    adam = legacy.Adam(0.1, epsilon=0.1)
    np.testing.assert_allclose(translated_steps(adam), keras_steps(adam), rtol=1e-5)


def legacy_module():
    """The `legacy` optimizers of Keras 2: tf_keras, or tf.keras up to TensorFlow 2.15."""
    if keras.SGD.__module__.startswith("keras.src") and hasattr(tf, "estimator"):
        return keras.legacy
    return pytest.importorskip("tf_keras").optimizers.legacy


def test_optimizer_of_a_graph_is_refused(graph):
    made = keras.SGD(0.1)
    with pytest.raises(ValueError, match=r"was made in a graph.*Make it where operations run"):
        translation(made, "DNNClassifier", "optimizer")


@tf.keras.utils.register_keras_serializable("tests")
class Harmonic(keras.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1 / (1.0 + tf.cast(step, tf.float32))

    def get_config(self):
        return {}


def test_registered_schedule_follows_the_global_step():
    got = translated_steps(keras.SGD(Harmonic()))
    np.testing.assert_allclose(got, moved(0.1, 0.1 / 2, 0.1 / 3), rtol=1e-6)


class OwnSGD(keras.SGD):
    pass


class OwnSchedule(Harmonic):
    pass


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: keras.Adam(amsgrad=True), "of Keras has amsgrad=True, which no .*False"),
        (lambda: keras.SGD(weight_decay=0.1), "has weight_decay=0.1, which no .*Leave it out"),
        (lambda: keras.SGD(use_ema=True), "has use_ema=True, which no .*ModelAverageOptimizer"),
        (lambda: keras.SGD(clipvalue=1.0), "has clipvalue=1.0, which no .*clip_norm="),
        (lambda: keras.Nadam(0.1), "Adagrad, Adam, Ftrl, RMSprop, SGD can be"),
        (lambda: OwnSGD(0.1), "Adagrad, Adam, Ftrl, RMSprop, SGD can be"),
        (lambda: keras.SGD(OwnSchedule()), "rate OwnSchedule, which cannot be made anew"),
    ],
)
def test_optimizer_without_counterpart_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        translation(make(), "DNNClassifier", "optimizer")
