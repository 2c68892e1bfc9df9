"""Keras optimizers become tf.compat.v1 ones: steps against NumPy and Keras itself, and refusals."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from replicate import TowerOptimizer
from replicate.canned.keras_optimizers import translation

v1 = tf.compat.v1
keras = tf.keras.optimizers
START = np.array([1.0, -2.0], np.float32)
GRADIENT = np.array([0.5, -3.0], np.float32)


def steps_of(make, count=3):
    """Makes steps with a constant gradient in a new graph, and returns the variable after each."""
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        weight = v1.get_variable("w", initializer=START)
        train_op = make().minimize(tf.reduce_sum(GRADIENT * weight), step)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [(session.run(train_op), session.run(weight))[1] for _ in range(count)]


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
        lambda: keras.SGD(0.1),
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
    ids=["sgd", "momentum", "nesterov", "clipped", "schedule", "adagrad", "adam", "ftrl"],
)
def test_steps_are_those_of_keras(make):
    got, expected = translated_steps(make()), keras_steps(make())
    np.testing.assert_allclose(got, expected, rtol=2e-6)
    assert not np.allclose(got[0], START, atol=1e-3)


def test_adam_step_against_numpy():
    got = translated_steps(keras.Adam(0.1, epsilon=0.1))[0]
    first, second = 0.1 * GRADIENT, 0.001 * GRADIENT**2
    rate = 0.1 * np.sqrt(1 - 0.999) / (1 - 0.9)
    np.testing.assert_allclose(got, START - rate * first / (np.sqrt(second) + 0.1), rtol=1e-5)


def test_rmsprop_starts_at_one_and_says_so(own_log):
    with own_log.at_level(logging.WARNING):
        make = translation(keras.RMSprop(0.1, rho=0.8, epsilon=0.1), "DNNClassifier", "optimizer")
    assert "its mean square starts at 1 here and at 0 in Keras" in own_log.text
    mean_square = 0.8 * 1 + 0.2 * GRADIENT**2
    expected = START - 0.1 * GRADIENT / np.sqrt(mean_square + 0.1)
    np.testing.assert_allclose(steps_of(make)[0], expected, rtol=1e-5)


def test_global_norm_is_clipped_by_a_tower_optimizer():
    make = translation(keras.SGD(0.1, global_clipnorm=0.2), "DNNClassifier", "optimizer")
    with tf.Graph().as_default():
        assert isinstance(make(), TowerOptimizer)


def test_decay_of_legacy_optimizers_follows_the_global_step():
    legacy = legacy_module()
    got = translated_steps(legacy.SGD(0.1, decay=0.5))
    rates = np.cumsum([0.1, 0.1 / 1.5, 0.1 / 2])
    np.testing.assert_allclose(got, START - rates[:, None] * GRADIENT, rtol=1e-6)
    adam = legacy.Adam(0.1, epsilon=0.1)
    np.testing.assert_allclose(translated_steps(adam), keras_steps(adam), rtol=1e-5)


def legacy_module():
    """The `legacy` optimizers of Keras 2: tf_keras, or tf.keras up to TensorFlow 2.15."""
    if keras.SGD.__module__.startswith("keras.src") and hasattr(tf, "estimator"):
        return keras.legacy
    return pytest.importorskip("tf_keras").optimizers.legacy


@pytest.mark.parametrize(
    ("make", "setting", "advice"),
    [
        (lambda: keras.Adam(amsgrad=True), "amsgrad=True", "False"),
        (lambda: keras.SGD(weight_decay=0.1), "weight_decay=0.1", "Leave it out"),
        (lambda: keras.SGD(use_ema=True), "use_ema=True", "ModelAverageOptimizer"),
        (lambda: keras.SGD(clipnorm=1.0), "clipnorm=1.0", "clip_norm="),
        (lambda: keras.SGD(clipvalue=1.0), "clipvalue=1.0", "clip_norm="),
    ],
)
def test_setting_without_counterpart_is_refused_by_name(make, setting, advice):
    with pytest.raises(ValueError, match=rf"of Keras has {setting}, which no .*{advice}"):
        translation(make(), "DNNClassifier", "optimizer")


class OwnSGD(keras.SGD):
    pass


@pytest.mark.parametrize("make", [lambda: keras.Nadam(0.1), lambda: OwnSGD(0.1)])
def test_other_class_is_refused(make):
    with pytest.raises(ValueError, match="Adagrad, Adam, Ftrl, RMSprop, SGD can be"):
        translation(make(), "DNNClassifier", "optimizer")


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
    rates = np.cumsum([0.1, 0.1 / 2, 0.1 / 3])
    np.testing.assert_allclose(got, START - rates[:, None] * GRADIENT, rtol=1e-6)


def test_schedule_that_keras_cannot_make_anew_is_refused():
    class OwnSchedule(Harmonic):
        pass

    with pytest.raises(ValueError, match=r"learning rate OwnSchedule, which cannot be made anew"):
        translation(keras.SGD(OwnSchedule()), "DNNClassifier", "optimizer")
