"""Hooks that stop training at values that are not finite, and TensorFlow's own hooks."""

import contextlib
import inspect

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.errors import NonFiniteError
from replicate.estimator.hooks import stock as session_hooks
from replicate.estimator.hooks.finite import FiniteVariablesListener, require_finite_loss
from replicate.estimator.hooks.readings import StepReadings
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1
NAMES = {name for name, value in vars(session_hooks).items() if inspect.isclass(value)}


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_loss_that_is_not_finite_is_named_with_its_step(graph, bad):
    readings = StepReadings(tf.no_op(), tf.constant(bad, name="my_loss"))
    require_finite_loss(readings)
    readings.take(np.array([7.0, 1.0, 0.0]))
    require_finite_loss(readings)
    readings.take(np.array([8.0, bad, 0.0]))
    with pytest.raises(NonFiniteError, match=f"stopped at step 8: the loss my_loss is {bad}"):
        require_finite_loss(readings)


def test_variables_that_are_not_finite_are_named(graph):
    v1.train.create_global_step()
    bad = v1.get_variable("bad", initializer=[1.0, 2.0])
    v1.get_variable("good", initializer=[1.0])
    v1.get_variable("statistic", initializer=[np.inf], trainable=False)
    listener = FiniteVariablesListener()
    listener.begin()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        listener.before_save(session, 3)
        bad.load([1.0, np.nan], session)
        with pytest.raises(NonFiniteError, match=r"at step 3: not finite: bad. This"):
            listener.before_save(session, 3)


def skipping_model_fn(features, labels, mode):
    weights = v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(features @ weights - labels))
    optimizer = TowerOptimizer(lambda: v1.train.MomentumOptimizer(0.05, 0.9), skip_nonfinite=2)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_skipped_batches_are_logged_and_change_nothing_until_too_many_stop_training(
    linear, tmp_path, caplog
):
    def train(name, numbers, bad=()):
        features = np.stack([np.roll(linear.X, number, axis=0)[:4] for number in numbers])
        labels = np.stack([np.roll(linear.Y, number, axis=0)[:4] for number in numbers])
        features[[numbers.index(number) for number in bad], 3, 0] = np.nan
        replicated = replicate_model_fn(skipping_model_fn, devices=["/cpu:0", "/cpu:1"])
        estimator = linear.make_estimator(tmp_path / name, replicated, save_checkpoints_steps=1)
        with contextlib.suppress(NonFiniteError):
            estimator.train(lambda: tf.data.Dataset.from_tensor_slices((features, labels)))
            assert not bad
        return linear.values(estimator)

    found = train("bad", list(range(9)), bad=(1, 4, 5, 6))
    expected = train("calm", [0, 2, 3])
    for name in ("global_step", "w", "w/Momentum"):
        np.testing.assert_array_equal(found[name], expected[name])
    told = [record.getMessage() for record in caplog.records if "Skipped" in record.getMessage()]
    where = r"In tower 1 (/device:CPU:1), the loss tower_1/Mean"
    assert [message.split(":", 1)[0] for message in told] == [
        f"Skipped a batch after step {step}" for step in (1, 3, 3)
    ]
    assert all(where in message for message in told)


def test_hooks_of_tensorflow_have_their_names_here():
    for name in {name for name in dir(v1.train) if name.endswith("Hook")} | NAMES:
        assert getattr(replicate, name) is getattr(v1.train, name)
