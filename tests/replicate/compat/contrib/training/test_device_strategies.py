"""Strategies that place variables on parameter servers."""

import pytest
import tensorflow as tf

from replicate.compat.contrib import training

v1 = tf.compat.v1


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_go_to_the_server_with_the_fewest_bytes(use_resource):
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    setter = v1.train.replica_device_setter(2, ps_strategy=strategy)
    with (
        tf.Graph().as_default(),
        v1.device(setter),
        v1.variable_scope("", use_resource=use_resource),
    ):
        sizes = [("a", 10), ("b", 4), ("c", 4), ("d", 1), ("e", 2)]
        tasks = [v1.get_variable(name, [size]).device for name, size in sizes]
    assert [device.partition("task:")[2][0] for device in tasks] == list("01111")


def test_size_must_be_known():
    with tf.Graph().as_default():
        assert training.byte_size_load_fn(tf.zeros([3], tf.float64).op) == 24
        with pytest.raises(ValueError, match="needs the shape"):
            training.byte_size_load_fn(v1.placeholder(tf.float32, [None]).op)
        with pytest.raises(ValueError, match="has 2"):
            training.byte_size_load_fn(tf.split(tf.zeros([2]), 2)[0].op)


def test_random_tasks_repeat_with_the_seed():
    first, second = (training.RandomStrategy(3, seed=5) for _ in range(2))
    tasks = [first(None) for _ in range(20)]
    assert tasks == [second(None) for _ in range(20)]
    assert set(tasks) == {0, 1, 2}
