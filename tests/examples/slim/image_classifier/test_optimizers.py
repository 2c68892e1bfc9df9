"""Optimizers with the settings of the flags, and learning rates worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.image_classifier import optimizers, schedules

v1 = tf.compat.v1
EPSILON = ("epsilon", 0.1)


# Optimizers of TensorFlow; flag -> (argument that it stands for, value).
TAKEN = {
    "sgd": (v1.train.GradientDescentOptimizer, {}),
    "momentum": (v1.train.MomentumOptimizer, {"momentum": ("momentum", 0.8)}),
    "adagrad": (
        v1.train.AdagradOptimizer,
        {"adagrad_initial_accumulator_value": ("initial_accumulator_value", 0.3)},
    ),
    "adam": (
        v1.train.AdamOptimizer,
        {"adam_beta1": ("beta1", 0.8), "adam_beta2": ("beta2", 0.7), "opt_epsilon": EPSILON},
    ),
    "rmsprop": (
        v1.train.RMSPropOptimizer,
        {
            "rmsprop_decay": ("decay", 0.6),
            "rmsprop_momentum": ("momentum", 0.7),
            "opt_epsilon": EPSILON,
        },
    ),
    "adadelta": (
        v1.train.AdadeltaOptimizer,
        {"adadelta_rho": ("rho", 0.6), "opt_epsilon": EPSILON},
    ),
    "ftrl": (
        v1.train.FtrlOptimizer,
        {
            "ftrl_learning_rate_power": ("learning_rate_power", -0.4),
            "ftrl_initial_accumulator_value": ("initial_accumulator_value", 0.3),
            "ftrl_l1": ("l1_regularization_strength", 0.2),
            "ftrl_l2": ("l2_regularization_strength", 0.1),
        },
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_optimizers_of_tensorflow_get_their_settings(graph, optimizer_settings, name):
    kind, arguments = TAKEN[name]
    settings = optimizer_settings(name, **{flag: value for flag, (_, value) in arguments.items()})
    made = optimizers.make_optimizer(settings, tf.constant(0.5))
    weights, steps = [], []
    for optimizer in (made, kind(0.5, **dict(arguments.values()))):
        weights.append(v1.get_variable(f"weight_{len(weights)}", initializer=1.0))
        steps.append(optimizer.apply_gradients([(tf.constant(2.0), weights[-1])]))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(2):
            session.run(steps)
            found, wanted = session.run(weights)
            assert found == pytest.approx(wanted, rel=1e-5)


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
