"""Dense layers and batch normalization against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.canned.layers import batch_normalization, dense, dropout
from replicate.estimator.random_ops import STATEFUL_TYPES
from replicate.tower.build import TowerSettings
from replicate.tower.scopes import tower_scopes

v1 = tf.compat.v1
X = np.array([[1, -2], [3, 0.5]], np.float32)


def test_dense_layer_records_its_sums(graph):
    with v1.variable_scope("layer"):
        outputs, (layer,) = dense(tf.constant(X), 3, tf.nn.relu)
    assert [each.op.name for each in v1.trainable_variables()] == ["layer/kernel", "layer/bias"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        layer.bias.load(np.array([1, -1, 0.5], np.float32), session)
        kernel, sums, values = session.run([layer.kernel, layer.outputs, outputs])
    np.testing.assert_allclose(sums, X @ kernel + [1, -1, 0.5], rtol=1e-6)
    np.testing.assert_allclose(values, np.maximum(sums, 0))
    limit = np.sqrt(6 / (2 + 3))
    assert np.abs(kernel).max() <= limit
    assert (layer.kind, layer.inputs.shape.as_list()) == ("dense", [2, 2])


def test_dense_layer_without_activation_is_linear(graph):
    outputs, (layer,) = dense(tf.constant(X), 2)
    assert outputs is layer.outputs


def test_partitioned_dense_layer_has_no_record(graph):
    with v1.variable_scope("layer", partitioner=v1.fixed_size_partitioner(2)):
        assert dense(tf.constant(X), 2).layers == []


def test_batch_normalization_takes_the_batch_in_training(graph):
    values = tf.constant([[7.0, 4.0], [13.0, 9.0]])
    with v1.variable_scope("layer", partitioner=v1.fixed_size_partitioner(2)):
        trained = batch_normalization(values, "batchnorm_0", is_training=True)
    with v1.variable_scope("layer", reuse=True):
        applied = batch_normalization(values, "batchnorm_0", is_training=False)
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == trained.updates
    assert applied.updates == []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(
            session.run(trained.outputs),
            [[-0.999944449, -0.99992001], [0.999944449, 0.99992001]],
            rtol=1e-6,
        )
        session.run(trained.updates)
        moving = {each.op.name: session.run(each) for each in v1.global_variables()}
        applied = session.run(applied.outputs)
    mean, variance = np.array([10, 6.5]) * 0.001, 0.999 + np.array([9, 6.25]) * 0.001
    np.testing.assert_allclose(moving["layer/batchnorm_0/moving_mean"], mean, rtol=1e-4)
    np.testing.assert_allclose(moving["layer/batchnorm_0/moving_variance"], variance, rtol=1e-6)
    expected = (np.array([[7, 4], [13, 9]]) - mean) / np.sqrt(variance + 0.001)
    np.testing.assert_allclose(applied, expected, rtol=1e-5)
    assert {each.op.name for each in v1.trainable_variables()} == {
        "layer/batchnorm_0/gamma",
        "layer/batchnorm_0/beta",
    }


def test_batch_without_rows_has_finite_gradients(graph):
    """A tower may get no row of a small batch."""
    inputs = v1.placeholder_with_default(np.zeros([0, 2], np.float32), [None, 2])
    outputs = batch_normalization(inputs, "batchnorm_0", is_training=True).outputs
    gradients = tf.gradients(tf.reduce_sum(outputs), v1.trainable_variables())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(gradients), np.zeros([2, 2]))


ONES = np.ones([40, 250], np.float32)


def masks(seed, steps=2):
    """Dropout of ones in two layers, at each step; and the types of the operations."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(seed)
        step = v1.train.create_global_step()
        found = []
        for name in ("hiddenlayer_0", "hiddenlayer_1"):
            with v1.variable_scope(name):
                found.append(dropout(tf.constant(ONES), 0.25))
        with v1.Session() as session:
            session.run(step.initializer)
            drawn = []
            for _ in range(steps):
                drawn += session.run(found)
                session.run(step.assign_add(1))
        return drawn, [op.name for op in graph.get_operations() if op.type in STATEFUL_TYPES]


def test_dropout_keeps_the_mean_and_draws_anew_in_each_layer_and_step():
    drawn, stateful = masks(1)
    for mask in drawn:
        np.testing.assert_allclose(np.unique(mask), [0, 1 / 0.75])
        assert mask.mean() == pytest.approx(1, abs=0.03)
    assert len({mask.tobytes() for mask in [*drawn, *masks(2)[0]]}) == 8
    for mask, again in zip(drawn, masks(1)[0], strict=True):
        np.testing.assert_array_equal(again, mask)
    assert stateful == []


def test_towers_drop_different_values(graph):
    v1.train.create_global_step()
    found = []
    with tower_scopes(
        TowerSettings(device_plan(["/cpu:0", "/cpu:1"]), averages_loss=True)
    ) as scopes:
        for index in range(2):
            with scopes.tower(index, 0.5), v1.variable_scope("layer", reuse=v1.AUTO_REUSE):
                found.append(dropout(tf.constant(ONES), 0.25))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        first, second = session.run(found)
    assert (first != second).mean() == pytest.approx(2 * 0.25 * 0.75, abs=0.03)


def test_dropout_without_a_seed_is_unpredictable():
    drawn, stateful = masks(None, steps=1)
    assert len(stateful) == 2
    assert drawn[0].tobytes() != masks(None, steps=1)[0][0].tobytes()


def test_dropout_needs_no_global_step(graph):
    outputs = dropout(tf.constant(ONES), 0.25)
    with v1.Session() as session:
        np.testing.assert_allclose(np.unique(session.run(outputs)), [0, 1 / 0.75])
