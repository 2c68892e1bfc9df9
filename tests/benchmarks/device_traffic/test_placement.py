"""The rules of placement give the devices that TensorFlow itself chooses."""

import tensorflow as tf

import replicate
from benchmarks.device_traffic import placement, traffic
from benchmarks.device_traffic.placement import Kernel, gpu_kernel
from examples import convnet_model

v1 = tf.compat.v1


def build_two_towers():
    """Builds a step on logical CPUs; returns its operations."""
    v1.train.get_or_create_global_step()

    def model_fn(features, labels, mode):
        loss = convnet_model.mean_loss(convnet_model.build_model(features), labels)
        optimizer = replicate.TowerOptimizer(
            v1.train.MomentumOptimizer(0.1, 0.9), accumulate_steps=2, clip_norm=1.0
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = replicate.replicate_model_fn(
        model_fn, v1.losses.Reduction.MEAN, ["/cpu:1", "/cpu:2"]
    )
    batch = tf.ones([4, 8, 8, 1]), tf.zeros([4], tf.int32)
    return replicated(*batch, replicate.ModeKeys.TRAIN).train_op


def sends_of_tensorflow(train_op):
    """Runs a step without optimizations of the graph; returns (operation, target) of each send."""
    config = v1.ConfigProto(device_count={"CPU": 8}, allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    metadata = v1.RunMetadata()
    with v1.Session(config=config) as session:
        session.run(v1.global_variables_initializer())
        options = v1.RunOptions(output_partition_graphs=True)
        session.run(train_op, options=options, run_metadata=metadata)
    sends = [
        node
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.op in ("_Send", "_HostSend")
    ]
    return {
        (_edge_name(node.attr["tensor_name"].s), _short(node.attr["recv_device"].s))
        for node in sends
    }


def _edge_name(tensor_name):
    """Returns the operation's name in "edge_12_name"."""
    return tensor_name.decode().split("_", 2)[2].partition(":")[0]


def _short(device):
    return device.decode().rpartition("device:")[2]


def test_crossings_are_those_of_tensorflow():
    with tf.Graph().as_default() as graph:
        train_op = build_two_towers()
        operations = graph.get_operations()
        placed = placement.place(operations, lambda operation: True, default="CPU:0")
        executed = traffic.executed_operations(operations, [train_op], set())
        found = {
            (source.name, placed[target])
            for target in executed
            for source in [*(tensor.op for tensor in target.inputs), *target.control_inputs]
            if placed[source] != placed[target]
        }
        expected = sends_of_tensorflow(train_op)
    assert len(expected) > 20
    assert found == expected


def test_group_without_a_kernel_is_on_the_cpu():
    with tf.Graph().as_default() as graph:
        with v1.device("/gpu:1"):
            kept = v1.get_variable("kept", [2], use_resource=True)
            kept.assign_add([1.0, 1.0])
        with v1.device("/gpu:1"):
            moved = v1.get_variable("moved", [2], use_resource=True)
            moved.assign_sub([1.0, 1.0])
        operations = graph.get_operations()
        placed = placement.place(operations, lambda each: each.type != "AssignSubVariableOp")
    assert placed[kept.op] == "GPU:1"
    assert placed[moved.op] == "CPU:0"
    assert {placed[each] for each in operations if each.type == "AssignSubVariableOp"} == {"CPU:0"}


def find(make, dtype=tf.float32, count=2):
    """The GPU kernel of the operation that `make` builds of some matrices."""
    with tf.Graph().as_default():
        return gpu_kernel(make(*(v1.placeholder(dtype, [2, 2]) for _ in range(count))).op)


def test_kernels_tell_what_is_in_the_memory_of_the_cpu():
    assert find(tf.matmul) == Kernel()
    assert find(tf.matmul, tf.int32) is None
    assert find(lambda *texts: tf.strings.join(texts), tf.string) is None
    assert find(tf.add, tf.int32) == Kernel(frozenset({0, 1}), frozenset({0}))
    # Types without a kernel of their own have a default one.
    assert find(tf.reduce_sum, tf.int32, 1) == Kernel(frozenset({0, 1}), frozenset({0}))
    assert find(tf.reduce_sum, count=1) == Kernel(frozenset({1}), frozenset())
    # The three values of the list come before the axis.
    assert find(lambda *values: tf.concat(values, axis=0), count=3).host_inputs == {3}


def test_operation_without_gpu_kernel_is_a_stray():
    with tf.Graph().as_default() as graph, v1.device("/gpu:0"):
        text = tf.strings.as_string(v1.placeholder(tf.float32, []), name="text").op
        found = traffic.measure(graph.get_operations(), [text])
    assert found.strays == ["GPU:0 AsString text"]
