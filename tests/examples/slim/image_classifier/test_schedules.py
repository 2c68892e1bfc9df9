"""Learning rates against numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.image_classifier import schedules

v1 = tf.compat.v1


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
        assert rate.dtype == tf.float32
        assert rate.shape == ()
        return [session.run(rate, {step: number}) for number in steps]


# 2 epochs of 5.3 steps are 10 whole steps.
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("exponential", [0.8, 0.8, 0.8, 0.4, 0.4, 0.2]),
        ("polynomial", [0.8, 0.74, 0.26, 0.2, 0.2, 0.2]),
        ("fixed", [0.8, 0.8, 0.8, 0.8, 0.8, 0.8]),
    ],
)
def test_decay(kind, wanted):
    np.testing.assert_allclose(rates(schedule(kind), [0, 1, 9, 10, 19, 20]), wanted, rtol=1e-6)


def test_warm_up_is_a_straight_line_until_the_schedule_is_lower():
    # 3 epochs of 5 steps; after 10 steps the schedule halves, to 0.4, which 15 would reach at 7.5.
    found = rates(schedule("exponential", warmup_epochs=3.0), [0, 3, 6, 10, 14, 15], 5.0)
    np.testing.assert_allclose(found, [0, 0.16, 0.32, 0.4, 0.4, 0.4], rtol=1e-6)


def test_steps_of_an_epoch():
    assert schedules.steps_per_epoch(100, 8) == 12.5
    assert schedules.steps_per_epoch(100, 8, batches_per_step=5) == 2.5


def test_names():
    with tf.Graph().as_default():
        for kind in schedules.DECAY_TYPES:
            name = schedules.learning_rate(schedule(kind), 5.0, tf.constant(1)).op.name
            decays = f"{kind}_decay_learning_rate"
            assert name == ("fixed_learning_rate" if kind == "fixed" else decays)


def test_impossible_schedules_are_refused():
    with pytest.raises(ValueError, match="'cosine'; known are exponential, fixed, polynomial"):
        schedules.check(schedule("cosine"), 10.0)
    with pytest.raises(ValueError, match=r"every 0.1 epochs of 5 steps: that is less than a step"):
        schedules.check(schedule("exponential", num_epochs_per_decay=0.1), 5.0)
    schedules.check(schedule("fixed", num_epochs_per_decay=0.1), 5.0)
