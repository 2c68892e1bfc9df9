"""Two steps of each optimizer against its formula, and K-FAC on any number of clones."""

import math

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.image_classifier import optimizers

v1 = tf.compat.v1
RATE, GRADIENT = 0.5, 2.0


def sgd():
    yield from (RATE * GRADIENT, RATE * GRADIENT)


def momentum(momentum=0.8):
    yield from (RATE * GRADIENT, RATE * GRADIENT * (1 + momentum))


def adagrad(start=0.3):
    for step in (1, 2):
        yield RATE * GRADIENT / math.sqrt(start + step * GRADIENT**2)


def adam(beta1=0.8, beta2=0.7, epsilon=0.1):
    mean = square = 0.0
    for step in (1, 2):
        mean = beta1 * mean + (1 - beta1) * GRADIENT
        square = beta2 * square + (1 - beta2) * GRADIENT**2
        rate = RATE * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        yield rate * mean / (math.sqrt(square) + epsilon)


def rmsprop(decay=0.6, momentum=0.7, epsilon=0.1):
    square, velocity = 1.0, 0.0
    for _ in (1, 2):
        square = decay * square + (1 - decay) * GRADIENT**2
        velocity = momentum * velocity + RATE * GRADIENT / math.sqrt(square + epsilon)
        yield velocity


def adadelta(rho=0.6, epsilon=0.1):
    square = moved = 0.0
    for _ in (1, 2):
        square = rho * square + (1 - rho) * GRADIENT**2
        change = math.sqrt(moved + epsilon) / math.sqrt(square + epsilon) * GRADIENT
        moved = rho * moved + (1 - rho) * change**2
        yield RATE * change


def ftrl(power=-0.4, start=0.3, l1=0.2, l2=0.1):
    weight, square, linear = 1.0, start, 0.0
    for _ in (1, 2):
        grown = square + GRADIENT**2
        linear += GRADIENT - (grown**-power - square**-power) / RATE * weight
        square = grown
        quadratic = square**-power / RATE + 2 * l2
        new = (math.copysign(l1, linear) - linear) / quadratic if abs(linear) > l1 else 0.0
        yield weight - new
        weight = new


@pytest.mark.parametrize(
    ("name", "formula", "changes"),
    [
        ("sgd", sgd, {}),
        ("momentum", momentum, {"momentum": 0.8}),
        ("adagrad", adagrad, {"adagrad_initial_accumulator_value": 0.3}),
        ("adam", adam, {"adam_beta1": 0.8, "adam_beta2": 0.7, "opt_epsilon": 0.1}),
        (
            "rmsprop",
            rmsprop,
            {"rmsprop_decay": 0.6, "rmsprop_momentum": 0.7, "opt_epsilon": 0.1},
        ),
        ("adadelta", adadelta, {"adadelta_rho": 0.6, "opt_epsilon": 0.1}),
        (
            "ftrl",
            ftrl,
            {
                "ftrl_learning_rate_power": -0.4,
                "ftrl_initial_accumulator_value": 0.3,
                "ftrl_l1": 0.2,
                "ftrl_l2": 0.1,
            },
        ),
    ],
)
def test_two_steps(optimizer_settings, name, formula, changes):
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("weight", initializer=1.0)
        made = optimizers.make_optimizer(optimizer_settings(name, **changes), tf.constant(RATE))
        step = made.apply_gradients([(tf.constant(GRADIENT), weight)])
        session.run(v1.global_variables_initializer())
        values = [1.0]
        for _ in range(2):
            session.run(step)
            values.append(session.run(weight))
    np.testing.assert_allclose(-np.diff(values), list(formula()), rtol=1e-5)


def test_unknown_name_lists_the_known_ones(optimizer_settings):
    with pytest.raises(ValueError, match="'lion'; known are adadelta, adagrad, adam, ftrl, kfac,"):
        optimizers.make_optimizer(optimizer_settings("lion"), 0.1)
