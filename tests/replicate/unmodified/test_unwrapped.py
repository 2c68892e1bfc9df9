"""Optimizers without a TowerOptimizer, beside those that have one, are refused on two towers."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.contrib.estimator import clip_gradients_by_norm
from replicate.compat.contrib.opt.moving_average import MovingAverageOptimizer
from replicate.gradients.delegating import DelegatingOptimizer

v1 = tf.compat.v1
SGD = v1.train.GradientDescentOptimizer
TowerOptimizer = replicate.TowerOptimizer


def wrapped():
    return TowerOptimizer(SGD(0.1))


class OverridesApply(SGD):
    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return v1.group([v.assign_sub(g) for g, v in grads_and_vars if g is not None])


class MinimizesBySuper(SGD):
    def minimize(self, loss, global_step=None, var_list=None):
        pairs = self.compute_gradients(loss, var_list)
        return super().apply_gradients(pairs, global_step)


class MinimizesByHand(SGD):
    def minimize(self, loss, global_step=None, var_list=None):
        gradients = tf.gradients(loss, var_list)
        return v1.group([v.assign_sub(g) for g, v in zip(gradients, var_list, strict=True)])


class MinimizesLater(SGD):
    def minimize(self, *args, **kwargs):
        return super().minimize(*args, **kwargs)


class HalfDelegating(DelegatingOptimizer):
    """Trains one half of the variables by the optimizer inside, the other by another one."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        first, *others = grads_and_vars
        return tf.group(
            super().apply_gradients([first], global_step), SGD(0.1).apply_gradients(others)
        )


class UserWrapper(SGD):
    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        doubled = ((None if g is None else 2.0 * g, v) for g, v in grads_and_vars)
        return wrapped().apply_gradients(doubled, global_step)


def minimize(optimizer):
    return lambda loss, b, batch: optimizer.minimize(loss, var_list=[b])


def moving_average(loss, b, batch):
    average = v1.train.ExponentialMovingAverage(0.9)
    train_op = wrapped().minimize(loss, var_list=[b])
    with v1.control_dependencies([train_op]):
        return average.apply([b])


def clipped_weights(loss, b, batch):
    with v1.control_dependencies([wrapped().minimize(loss, var_list=[b])]):
        return b.assign(tf.clip_by_value(b, -0.5, 0.5))


def averages_of_batch_norm(loss, b, batch):
    mean = v1.get_variable("mean", [], trainable=False)
    spectral = v1.get_variable("spectral", [], trainable=False)
    step = v1.train.get_or_create_global_step()
    updates = [mean.assign(0.9 * mean + tf.reduce_mean(batch)), spectral.assign(b / tf.norm(b))]
    target = v1.get_variable("target", []).assign(b)  # Trainable by its collection only.
    return tf.group(wrapped().minimize(loss, step, [b]), updates, target)


def trained(second, wrap=False, devices=("/cpu:0", "/cpu:0")):
    """Builds a model whose optimizers train a, and b by the second one; runs a step."""

    def model_fn(features, labels, mode):
        a, b = (v1.get_variable(name, [], initializer=tf.ones_initializer()) for name in "ab")
        loss = tf.reduce_mean(tf.square(a * b * features - labels))
        first = wrapped().minimize(loss, var_list=[a])
        train_op = tf.group(first, second()(loss, b, features))
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        rows = tf.constant(np.arange(4, dtype="f4").reshape(4, 1))
        built = replicate.replicate_model_fn(model_fn, devices=devices, wrap_optimizers=wrap)
        spec = built(rows, 2.0 * rows, "train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(spec.train_op)


def keras_legacy():
    optimizers = pytest.importorskip("tf_keras").optimizers.legacy
    return lambda loss, b, batch: optimizers.Adam(0.1).apply_gradients(
        [(tf.gradients(loss, b)[0], b)]
    )


def keras_updates():
    optimizers = pytest.importorskip("tf_keras").optimizers.legacy
    return lambda loss, b, batch: tf.group(optimizers.SGD(0.1).get_updates(loss, [b]))


def keras_current():
    optimizers = pytest.importorskip("tf_keras").optimizers
    return lambda loss, b, batch: optimizers.SGD(0.1).apply_gradients(
        [(tf.gradients(loss, b)[0], b)]
    )


def keras_3():
    optimizers = pytest.importorskip("keras", minversion="3").optimizers

    def train(loss, b, batch):
        optimizers.SGD(0.1).apply(tf.gradients(loss, [b]), [b])
        return tf.no_op()

    return train


UNWRAPPED = {
    "base class": (lambda: minimize(v1.train.AdamOptimizer(0.1)), "AdamOptimizer"),
    "apply_gradients of its own": (lambda: minimize(OverridesApply(0.1)), "OverridesApply"),
    "super().apply_gradients": (lambda: minimize(MinimizesBySuper(0.1)), "MinimizesBySuper"),
    "minimize of its own": (lambda: minimize(MinimizesByHand(0.1)), "MinimizesByHand"),
    "super().minimize": (lambda: minimize(MinimizesLater(0.1)), "MinimizesLater"),
    "around a plain one": (lambda: minimize(clip_gradients_by_norm(SGD(0.1), 1.0)), "Gradient"),
    "tf_keras legacy": (keras_legacy, "Adam"),
    "tf_keras get_updates": (keras_updates, "SGD"),
    "tf_keras": (keras_current, "SGD"),
    "keras 3": (keras_3, "SGD"),
}


@pytest.mark.parametrize("name", UNWRAPPED)
def test_the_variables_of_an_unwrapped_optimizer_are_named(name):
    second, kind = UNWRAPPED[name]
    with pytest.raises(ValueError, match=rf"variables \[b\] are trained by \w*{kind}") as raised:
        trained(second)
    remedy = "Optimizers of Keras" if "keras" in name else "Please wrap each optimizer in model_fn"
    assert remedy in str(raised.value)
    assert raised.traceback[1].path.name == "test_unwrapped.py"
    trained(second, devices=["/cpu:0"])


def test_only_the_part_that_no_one_gathers_is_named():
    def both():
        def train(loss, b, batch):
            c = v1.get_variable("c", [])
            return HalfDelegating(wrapped(), "Half").minimize(loss + c * tf.reduce_sum(batch))

        return train

    with pytest.raises(ValueError, match=r"\[b, c\] are trained by GradientDescentOptimizer"):
        trained(both)


@pytest.mark.parametrize("name", ["super().apply_gradients", "minimize of its own", "keras 3"])
def test_optimizers_that_are_not_gathered_are_named_where_all_count_as_wrapped(name):
    with pytest.raises(ValueError, match=r"variables \[b\] are trained by"):
        trained(UNWRAPPED[name][0], wrap=True)


WRAPPED = {
    "two": lambda: minimize(wrapped()),
    "clipping": lambda: minimize(clip_gradients_by_norm(wrapped(), 1.0)),
    "delegating": lambda: minimize(DelegatingOptimizer(wrapped(), "Delegating")),
    "of the user": lambda: minimize(UserWrapper(0.1)),
    "moving average around": lambda: minimize(MovingAverageOptimizer(wrapped())),
    "moving average inside": lambda: minimize(TowerOptimizer(MovingAverageOptimizer(SGD(0.1)))),
    "super() inside": lambda: minimize(TowerOptimizer(MinimizesLater(0.1))),
    "moving average": lambda: moving_average,
    "clipped weights": lambda: clipped_weights,
    "averages of batch norm": lambda: averages_of_batch_norm,
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_optimizers_and_other_assignments_are_no_unwrapped_optimizers(name):
    trained(WRAPPED[name])
    trained(WRAPPED[name], wrap=True)
