import numpy as np
import pytest
import tensorflow as tf

from replicate import AllReduce, EstimatorSpec, ModeKeys, TowerOptimizer, replicate_model_fn
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.step import WorkerStep
from replicate.tower.workers import attached_workers

v1 = tf.compat.v1
TWO = ["/cpu:0", "/cpu:1"]
Descent = v1.train.GradientDescentOptimizer


class LAMBLike(v1.train.Optimizer):
    """Assigns by itself, as the optimizers of BERT do."""

    def __init__(self):
        super().__init__(False, "Like")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return tf.group(*(v1.assign_sub(v, 0.1 * g) for g, v in grads_and_vars))


class Delegating(v1.train.Optimizer):
    def __init__(self, wrapped):
        super().__init__(False, "Delegating")
        self.wrapped = wrapped

    def compute_gradients(self, *args, **kwargs):
        return self.wrapped.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return self.wrapped.apply_gradients([(2 * g, v) for g, v in grads_and_vars], global_step)


def keras_step(loss, variable):
    optimizer = pytest.importorskip("tf_keras").optimizers.legacy.SGD(0.1)
    return optimizer.apply_gradients([(tf.gradients(loss, [variable])[0], variable)])


BARE = {
    "kernel": lambda loss, b: Descent(0.1).minimize(loss, var_list=[b]),
    "slots": lambda loss, b: v1.train.AdamOptimizer(0.1).minimize(loss, var_list=[b]),
    "assignments": lambda loss, b: LAMBLike().minimize(loss, var_list=[b]),
    "around it": lambda loss, b: Delegating(Descent(0.1)).minimize(loss, var_list=[b]),
    "keras": keras_step,
    "own": lambda loss, b: v1.assign_sub(b, tf.gradients(loss, [b])[0]),
}


def averaged(loss, b):
    step = TowerOptimizer(Descent(0.1)).minimize(loss, var_list=[b])
    with tf.control_dependencies([step]):
        return v1.train.ExponentialMovingAverage(0.9).apply([b])


def clipped(loss, b):
    step = TowerOptimizer(Descent(0.1)).minimize(loss, var_list=[b])
    with tf.control_dependencies([step]):
        return v1.assign(b, tf.clip_by_value(b, -1.0, 1.0))


def copied(loss, b):
    target = v1.get_variable("target", initializer=0.0)
    step = TowerOptimizer(Descent(0.1)).minimize(loss, var_list=[b])
    with tf.control_dependencies([step]):
        return v1.assign(target, 0.9 * target + 0.1 * b)


FINE = {
    "wrapped": lambda loss, b: TowerOptimizer(Descent(0.1)).minimize(loss, var_list=[b]),
    "delegating": lambda loss, b: Delegating(TowerOptimizer(Descent(0.1))).minimize(
        loss, var_list=[b]
    ),
    "averages": averaged,
    "clipping": clipped,
    "target network": copied,
    "not asked for": lambda loss, b: (Descent(0.1).minimize(loss, var_list=[b]), tf.no_op())[1],
}


def built(second, in_turn=False, devices=TWO, workers=None, **how):
    def model_fn(features, labels, mode):
        a, b = (v1.get_variable(name, initializer=1.0) for name in "ab")
        loss = tf.reduce_mean((a * features + b - labels) ** 2)
        optimizer = Descent(0.1) if how else TowerOptimizer(Descent(0.1))
        step = v1.train.get_or_create_global_step()
        other = second(loss, b)
        with tf.control_dependencies([other] if in_turn else []):
            first = optimizer.minimize(loss, step, var_list=[a])
        return EstimatorSpec(mode, loss=loss, train_op=tf.group(first, other))

    rows = np.ones([4, 1], np.float32)
    with tf.Graph().as_default(), attached_workers(workers and workers()):
        return replicate_model_fn(model_fn, devices=devices, **how)(rows, rows, ModeKeys.TRAIN)


def two_workers():
    return WorkerStep(WorkerGroup(["chief", "worker"], 0, AllReduce()))


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("second", BARE.values(), ids=BARE)
def test_bare_optimizer_beside_a_wrapped_one_is_refused(second, in_turn):
    with pytest.raises(ValueError, match=r"2 towers: .* would train \[b\] .* Please wrap"):
        built(second, in_turn)


@pytest.mark.parametrize("second", BARE.values(), ids=BARE)
def test_workers_with_one_tower_refuse_bare_optimizers_too(second):
    with pytest.raises(ValueError, match=r"AllReduce: .* would train \[b\] on the batch of each "):
        built(second, devices=["/cpu:0"], workers=two_workers)
    built(second, devices=["/cpu:0"])


@pytest.mark.parametrize("second", FINE.values(), ids=FINE)
def test_what_is_no_bare_optimizer_is_built(second):
    built(second)
    built(second, devices=["/cpu:0"], workers=two_workers)


def test_keras_beside_optimizers_that_are_wrapped_by_itself_is_refused():
    with pytest.raises(ValueError, match=r"would train \[b\] .* optimizers of Keras are not gath"):
        built(keras_step, wrap_optimizers=True)
    built(BARE["slots"], wrap_optimizers=True)
