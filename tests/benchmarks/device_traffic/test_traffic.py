"""Bytes between devices: of single tensors, and summed by link and by memory."""

import tensorflow as tf

from benchmarks.device_traffic import links, traffic
from benchmarks.device_traffic.traffic import Crossing

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


def test_host_input_of_a_gpu_kernel_is_a_wait():
    def make():
        with on_gpu(0):
            value = tf.exp(placeholder([4]))
            positive = tf.reduce_all(value > 0)
            return tf.raw_ops.Switch(data=value, pred=positive).output_true.op

    found = measured(make)
    (wait,) = found.waits
    assert (wait.kind, wait.target, wait.bytes) == ("All", "CPU:0", 1)
    assert found.rounds == 1


def test_static_shapes_are_known_before_and_others_are_listed():
    def make(shape):
        def build():
            with on_gpu(0):
                value = tf.exp(placeholder(shape))
                return tf.reshape(value, tf.reverse(tf.shape(value), [0])).op

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


def test_dead_outputs_of_switches_are_not_counted():
    def make():
        with on_gpu(0):
            value = tf.exp(placeholder([4]))
        switch = tf.raw_ops.Switch(data=value, pred=placeholder([], tf.bool), name="chosen")
        with on_gpu(1):
            rare = tf.sin(switch.output_true)
        with on_gpu(0):
            usual = tf.cos(switch.output_false)
            return tf.raw_ops.Merge(inputs=[usual, rare]).output.op

    def found(is_rare):
        with tf.Graph().as_default() as graph:
            fetch = make()
            return traffic.measure(graph.get_operations(), [fetch], rare=is_rare)

    both = found(lambda tensor: False)
    usual = found(lambda tensor: tensor.op.name == "chosen" and tensor.value_index == 1)
    neither = found(lambda tensor: tensor.op.name == "chosen")
    assert both.operations == {"CPU:0": 2, "GPU:0": 4, "GPU:1": 1}
    assert usual.operations == {"CPU:0": 2, "GPU:0": 4}
    assert neither.operations == {}


def test_operation_without_gpu_kernel_is_a_stray():
    def make():
        with on_gpu(0):
            return tf.strings.as_string(tf.exp(placeholder([])), name="text").op

    found = measured(make)
    assert found.strays == [traffic.Stray("text", "AsString", "GPU:0")]
    assert found.operations == {"CPU:0": 2, "GPU:0": 1}


def crossing(source, target, size, consumer="sum/add"):
    return Crossing("x:0", "Mul", source, target, size, (consumer,), is_wait=False)


CROSSINGS = [
    crossing("GPU:0", "CPU:0", 10),
    crossing("GPU:0", "CPU:0", 5),
    crossing("GPU:0", "GPU:1", 7),
    crossing("GPU:1", "CPU:0", 3, "other"),
    crossing("GPU:2", "GPU:1", None),
    crossing("GPU:3", "GPU:1", 8),
    crossing("GPU:1", "GPU:2", 9),
]


def test_bytes_are_added_by_link():
    found = links.of(CROSSINGS)
    assert found.bytes["GPU:0", "CPU:0"] == 15
    assert ("GPU:2", "GPU:1") not in found.bytes
    assert (found.largest, found.most_received, found.most_sent) == (15, 18, 22)
    assert (found.received("GPU:1"), found.sent("GPU:1")) == (15, 12)
    # Between halves those of one direction count.
    assert links.of(CROSSINGS).between_halves(4) == 9
    assert links.of(CROSSINGS).between_halves(2) == 7
    # A scope selects by consumers.
    assert links.of(CROSSINGS, "oth").bytes == {("GPU:1", "CPU:0"): 3}
    assert links.of([]).largest == 0
