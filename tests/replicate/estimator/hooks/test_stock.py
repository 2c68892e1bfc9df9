import inspect

import pytest
import tensorflow as tf

import replicate
from replicate.estimator.hooks import stock as session_hooks

v1 = tf.compat.v1

NAMES = sorted(name for name, value in vars(session_hooks).items() if inspect.isclass(value))


def test_nothing_is_missing():
    hooks = {name for name in dir(v1.train) if name.endswith("Hook")}
    assert hooks - set(NAMES) == set()


@pytest.mark.parametrize("name", NAMES)
def test_is_tensorflows_own(name):
    assert getattr(replicate, name) is getattr(v1.train, name)


def test_hook_of_an_old_program_runs(tmp_path):
    steps = []

    class Counter(replicate.SessionRunHook):
        def before_run(self, run_context):
            return replicate.SessionRunArgs(v1.train.get_global_step())

        def after_run(self, run_context, run_values):
            steps.append(int(run_values.results))

    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", [])
        loss = tf.square(weight - tf.reduce_mean(features))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = replicate.Estimator(model_fn, str(tmp_path))
    hooks = [Counter(), replicate.StopAtStepHook(last_step=3)]
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.ones([2])).repeat(), hooks=hooks)
    assert len(steps) == 3
