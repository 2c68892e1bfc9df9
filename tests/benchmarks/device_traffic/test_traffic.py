"""Bytes between devices: of single tensors, and summed by link and by memory."""

import tensorflow as tf

from benchmarks.device_traffic import traffic

v1 = tf.compat.v1


def measured(make):
    """Returns the traffic of the operation that `make` builds."""
    with tf.Graph().as_default() as graph:
        fetch = make()
        return traffic.measure(graph.get_operations(), [fetch])


def on_gpu(index):
    return v1.device(f"/gpu:{index}")


def placeholder(shape, dtype=tf.float32):
    with v1.device("/cpu:0"):
        return v1.placeholder(dtype, shape)


def test_tensor_is_sent_once_to_each_memory():
    def make():
        given = placeholder([256, 2])
        with on_gpu(0):
            first = tf.exp(given) + tf.sin(given)
        with on_gpu(1):
            return (first * tf.cos(given)).op

    found = measured(make)
    assert found.sent("CPU>GPU") == 2 * 2048
    assert found.sent("GPU>GPU") == 2048
    assert [each.target for each in found.large] == ["GPU:0", "GPU:1", "GPU:1"]
    assert found.operations == {"CPU:0": 1, "GPU:0": 3, "GPU:1": 2}


def test_only_copies_that_a_gpu_needs_are_waits():
    def make(returns):
        def build():
            with on_gpu(0):
                value = tf.exp(placeholder([]))
            with v1.device("/cpu:0"):
                sine = tf.sin(value)
            with on_gpu(1):
                return tf.cos(sine).op if returns else sine.op

        return build

    at_end, in_middle = measured(make(False)), measured(make(True))
    assert [each.route for each in at_end.crossings] == ["CPU>GPU", "GPU>CPU"]
    assert (at_end.waits, at_end.rounds) == ([], 0)
    (wait,) = in_middle.waits
    assert (wait.kind, wait.source, wait.bytes, in_middle.rounds) == ("Exp", "GPU:0", 4, 1)


def test_static_shapes_are_known_before_and_others_are_listed():
    def make(shape):
        def build():
            with on_gpu(0):
                value = tf.exp(placeholder(shape))
                return tf.reshape(value, tf.reverse(tf.raw_ops.Shape(input=value), [0])).op

        return build

    assert measured(make([3, 4])).operations == {"CPU:0": 1, "GPU:0": 2}
    assert measured(make([None, 4])).large[0].bytes is None


def test_constant_that_waits_orders_what_uses_it():
    def make():
        with on_gpu(0):
            first = tf.exp(placeholder([4]))
        with v1.device("/cpu:0"):
            second = tf.sin(first)
        with on_gpu(0), v1.control_dependencies([second]):
            one = tf.constant([1.0, 2.0])
        with on_gpu(0):
            return tf.cos(one).op

    found = measured(make)
    (signal,) = [each for each in found.crossings if each.name.startswith("^")]
    assert (signal.name, signal.route, signal.bytes) == ("^Sin", "CPU>GPU", 0)
    assert [(each.kind, each.bytes) for each in found.waits] == [("Exp", 16)]
    assert found.rounds == 1


def test_operation_without_gpu_kernel_is_a_stray():
    def make():
        with on_gpu(0):
            return tf.strings.as_string(tf.exp(placeholder([])), name="text").op

    found = measured(make)
    assert found.strays == [traffic.Stray("text", "AsString", "GPU:0")]
    assert found.operations == {"CPU:0": 2, "GPU:0": 1}
