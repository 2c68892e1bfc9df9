import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.random_ops import stateful_random_ops, warn_of_random_ops

v1 = tf.compat.v1


def minimized(loss):
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(loss, v1.train.get_or_create_global_step())


def weights():
    return v1.get_variable("w", [3], initializer=v1.random_normal_initializer())


def test_dropout_is_found_and_initializers_are_not(graph):
    loss = tf.reduce_sum(tf.nn.dropout(weights(), rate=0.5, name="drop"))
    (name,) = stateful_random_ops(minimized(loss))
    assert name.startswith("drop/")
    assert name.endswith("RandomUniform")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: tf.random.shuffle(tf.ones([3])) * weights(),
        lambda: tf.random.normal([3]) * weights(),
        lambda: tf.random.truncated_normal([3]) * weights(),
        lambda: tf.random.gamma([3], 2.0) * weights(),
        lambda: tf.cast(tf.random.categorical(tf.ones([1, 2]), 3), tf.float32) * weights(),
    ],
)
def test_kinds_of_stateful_operations(graph, draw):
    assert len(stateful_random_ops(minimized(tf.reduce_sum(draw())))) >= 1


def test_stateless_operations_and_generators_are_not_found(graph):
    step = v1.train.create_global_step()
    kept = tf.nn.experimental.stateless_dropout(weights(), rate=0.5, seed=replicate.step_seed(1))
    seed = tf.stack([0, tf.cast(step.read_value(), tf.int32)])
    noise = tf.random.stateless_normal([3], seed) + tf.random.stateless_uniform([3], seed)
    assert not warn_of_random_ops(minimized(tf.reduce_sum(kept * noise)))


def test_operations_that_a_step_does_not_run_are_not_found(graph):
    tf.random.normal([3], name="unused")
    dataset = tf.data.Dataset.from_tensors(np.float32(1)).map(lambda x: x + tf.random.normal([]))
    iterator = v1.data.make_initializable_iterator(dataset)
    assert stateful_random_ops(minimized(tf.reduce_sum(weights() * iterator.get_next()))) == []


def test_operations_behind_a_control_dependency_are_found(graph):
    with tf.control_dependencies([tf.random.normal([3], name="noise")]):
        train_op = minimized(tf.reduce_sum(weights()))
    assert stateful_random_ops(train_op)[0].startswith("noise/")


def test_operations_in_a_branch_and_in_a_function_are_found(graph):
    @tf.function
    def noisy(x):
        return x + tf.random.uniform([3], name="inner")

    is_noisy = v1.placeholder_with_default(True, [])
    weight = weights()
    outputs = tf.cond(is_noisy, lambda: noisy(weight), lambda: tf.identity(weight), name="branch")
    (name, *_) = stateful_random_ops(tf.reduce_sum(outputs))
    assert name.startswith("branch")
    assert "RandomUniform" in name


def test_warning_names_the_operations_and_the_remedy(graph, caplog):
    noise = [tf.random.normal([3], name=f"noise{i}") for i in range(7)]
    assert warn_of_random_ops(minimized(tf.reduce_sum(weights() * tf.add_n(noise))))
    assert "noise0/RandomStandardNormal, noise1/" in caplog.text
    assert "noise4/RandomStandardNormal and 2 more." in caplog.text
    assert "seed=replicate.step_seed(1)" in caplog.text
