"""Towers that XLA compiles train as those that it does not."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1

STEPS = 3

_random = np.random.default_rng(0)
IMAGES = _random.normal(size=[8, 4, 4, 1]).astype(np.float32)
LABELS = (np.arange(8) % 3).astype(np.int32)


def normalized(inputs):
    """Batch normalization whose moving mean is updated in UPDATE_OPS."""
    mean, variance = tf.nn.moments(inputs, axes=[0, 1, 2])
    moving = v1.get_variable("moving", [4], initializer=v1.zeros_initializer(), trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(moving, 0.1 * (moving - mean)))
    return tf.nn.batch_normalization(inputs, mean, variance, None, None, 1e-3)


def model_fn(features, labels, mode):
    """All that a tower may hold: layers, random numbers, a table, text, a check, a summary."""
    kernel = v1.get_variable("kernel", [3, 3, 1, 4])
    table = v1.get_variable("table", [3, 4])
    outputs = tf.nn.dropout(normalized(tf.nn.conv2d(features, kernel, 1, "SAME")), 0.3)
    numbers = tf.strings.to_number(tf.strings.as_string(labels), tf.int64)
    outputs += tf.nn.embedding_lookup(table, numbers)[:, None, None, :]
    classes = v1.get_default_graph().get_tensor_by_name("classes:0")
    with v1.control_dependencies([v1.assert_less(labels, classes)]):
        hidden = tf.nn.relu(tf.reduce_mean(outputs, axis=[1, 2]))
    logits = hidden @ v1.get_variable("weights", [4, 3])
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    v1.summary.scalar("largest", tf.reduce_max(logits))
    optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(0.5, 0.9), clip_norm=1.0)
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, {"logits": logits}, loss, train_op)


def build(count, xla, mode=replicate.ModeKeys.TRAIN):
    v1.set_random_seed(1)
    features = v1.placeholder_with_default(IMAGES, IMAGES.shape, "images")
    v1.placeholder_with_default(3, [], "classes")
    devices = [f"/cpu:{index}" for index in range(count)]
    replicated = replicate.replicate_model_fn(model_fn, devices=devices, xla=xla)
    labels = v1.placeholder_with_default(LABELS, LABELS.shape)  # Only the step can check it.
    return replicated(features, labels, mode)


def optimizing_session():
    """A session that optimizes its graph: XLA's clusters on two devices cannot do without."""
    return v1.Session(config=v1.ConfigProto(device_count={"CPU": 2}))


def marked(graph):
    return [op for op in graph.get_operations() if "_XlaCompile" in op.node_def.attr]


def clusters(spec, session):
    """Number of compiled clusters that ran in one step."""
    options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
    session.run(spec.train_op, options=options, run_metadata=metadata)
    nodes = [node.op for graph in metadata.partition_graphs for node in graph.node]
    return nodes.count("_XlaRun") + nodes.count("XlaLaunch")


def test_steps_are_those_without_it():
    def trained(xla):
        with tf.Graph().as_default():
            spec = build(2, xla)
            fetches = spec.loss, v1.summary.merge_all(), spec.train_op
            with optimizing_session() as session:
                session.run(v1.global_variables_initializer())
                session.run(v1.local_variables_initializer())
                start = session.run(v1.global_variables())
                losses = [session.run(fetches)[0] for _ in range(STEPS)]
                state = session.run(v1.global_variables())
                return start, losses, state, clusters(spec, session)

    plain_start, plain_losses, plain, _ = trained(xla=False)
    start, losses, compiled, ran = trained(xla=True)
    if not ran:
        pytest.skip("this TensorFlow has no XLA for the CPU")
    assert ran >= 2
    for expected, got in zip(plain_start, start, strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(losses, plain_losses, rtol=2e-6)
    for expected, got in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * max(1.0, abs(expected).max()))


def test_only_the_towers_of_training_are_compiled():
    """Neither what gathers and applies gradients, nor evaluation and prediction."""
    with tf.Graph().as_default() as graph:
        build(2, xla=True)
        names = [op.name for op in marked(graph) if op.get_attr("_XlaCompile")]
    assert any(name.startswith("tower_1/gradients/") for name in names)
    outside = ("gradient_aggregating", "Momentum", "batch_statistics", "split_inputs")
    assert not [name for name in names if any(part in name for part in outside)]
    for mode in (replicate.ModeKeys.EVAL, replicate.ModeKeys.PREDICT):
        with tf.Graph().as_default() as graph:
            build(2, xla=True, mode=mode)
        assert not marked(graph)


def test_checks_still_fail(graph):
    spec = build(2, xla=True)
    with optimizing_session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        before = session.run(v1.trainable_variables())
        for feed, error, match in (
            ({"images:0": np.full_like(IMAGES, np.nan)}, replicate.NonFiniteError, "In tower 0"),
            ({"classes:0": 2}, tf.errors.InvalidArgumentError, "assertion failed"),
        ):
            with pytest.raises(error, match=match), user_errors():
                session.run(spec.train_op, feed)
        for expected, got in zip(before, session.run(v1.trainable_variables()), strict=True):
            np.testing.assert_array_equal(got, expected)
