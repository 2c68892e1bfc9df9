"""Two steps of each optimizer against its formula, and learning rates worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.image_classifier import optimizers, schedules

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


CHANGES = {
    sgd: {},
    momentum: {"momentum": 0.8},
    adagrad: {"adagrad_initial_accumulator_value": 0.3},
    adam: {"adam_beta1": 0.8, "adam_beta2": 0.7, "opt_epsilon": 0.1},
    rmsprop: {"rmsprop_decay": 0.6, "rmsprop_momentum": 0.7, "opt_epsilon": 0.1},
    adadelta: {"adadelta_rho": 0.6, "opt_epsilon": 0.1},
    ftrl: {
        "ftrl_learning_rate_power": -0.4,
        "ftrl_initial_accumulator_value": 0.3,
        "ftrl_l1": 0.2,
        "ftrl_l2": 0.1,
    },
}


@pytest.mark.parametrize("formula", CHANGES)
def test_two_steps(optimizer_settings, formula):
    settings = optimizer_settings(formula.__name__, **CHANGES[formula])
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("weight", initializer=1.0)
        made = optimizers.make_optimizer(settings, tf.constant(RATE))
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


def schedule(kind, warmup_epochs=0.0, num_epochs_per_decay=2.0):
    return schedules.Schedule(
        learning_rate=0.8,
        learning_rate_decay_type=kind,
        learning_rate_decay_factor=0.5,
        num_epochs_per_decay=num_epochs_per_decay,
        end_learning_rate=0.2,
        warmup_epochs=warmup_epochs,
    )


def rates(chosen, steps, epoch_steps=5.3):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        rate = schedules.learning_rate(chosen, epoch_steps, step)
        assert (rate.dtype, rate.shape) == (tf.float32, ())
        return rate.op.name, [session.run(rate, {step: number}) for number in steps]


# 2 epochs of 5.3 steps are 10 whole steps.
@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        ("exponential", "exponential_decay", [0.8, 0.8, 0.8, 0.4, 0.4, 0.2]),
        ("polynomial", "polynomial_decay", [0.8, 0.74, 0.26, 0.2, 0.2, 0.2]),
        ("fixed", "fixed", [0.8, 0.8, 0.8, 0.8, 0.8, 0.8]),
    ],
)
def test_decay(kind, name, wanted):
    op_name, found = rates(schedule(kind), [0, 1, 9, 10, 19, 20])
    assert op_name == f"{name}_learning_rate"
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_warm_up_is_a_straight_line_until_the_schedule_is_lower():
    # 3 epochs of 5 steps; after 10 steps the schedule halves, to 0.4, which 15 would reach at 7.5.
    _, found = rates(schedule("exponential", warmup_epochs=3.0), [0, 3, 6, 10, 14, 15], 5.0)
    np.testing.assert_allclose(found, [0, 0.16, 0.32, 0.4, 0.4, 0.4], rtol=1e-6)


def test_impossible_schedules_are_refused():
    assert schedules.steps_per_epoch(100, 8) == 12.5
    assert schedules.steps_per_epoch(100, 8, batches_per_step=5) == 2.5
    with pytest.raises(ValueError, match="'cosine'; known are exponential, fixed, polynomial"):
        schedules.check(schedule("cosine"), 10.0)
    with pytest.raises(ValueError, match=r"every 0.1 epochs of 5 steps: that is less than a step"):
        schedules.check(schedule("exponential", num_epochs_per_decay=0.1), 5.0)
    schedules.check(schedule("fixed", num_epochs_per_decay=0.1), 5.0)
