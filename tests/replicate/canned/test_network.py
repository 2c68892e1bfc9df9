"""Networks and their layers against NumPy: logits, dropout, batch normalization, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.canned.network import (
    batch_normalization,
    dense,
    dnn_logit_fn_builder,
    dropout,
    make_network,
)
from replicate.estimator.random_ops import STATEFUL_TYPES
from replicate.spec import ModeKeys
from replicate.tower.build import TowerSettings
from replicate.tower.scopes import tower_scopes

v1 = tf.compat.v1
FEATURES = {"x": [[1.0, 2.0], [-3.0, 1.0]]}
ONES = np.ones([40, 250], np.float32)

fc = tf.feature_column
X = fc.numeric_column("x", shape=[2])


def network(hidden_units=(3,), columns=(X,), activation_fn=tf.nn.relu, dropout=None, **changes):
    settings = {"input_layer_partitioner": None, "batch_norm": False, **changes}
    return make_network(hidden_units, columns, activation_fn, dropout, **settings)


def test_logits_are_those_of_the_layers(graph):
    part = network([3, 2], activation_fn=tf.tanh).build(FEATURES, 2, ModeKeys.EVAL, None)
    assert [each.op.name for each in part.variables] == [
        f"dnn/{layer}/{name}"
        for layer in ("hiddenlayer_0", "hiddenlayer_1", "logits")
        for name in ("kernel", "bias")
    ]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        k0, b0, k1, b1, k2, b2 = session.run(part.variables)
        logits, sums = session.run([part.logits, part.layers[0].outputs])
    np.testing.assert_allclose(sums, FEATURES["x"] @ k0 + b0, rtol=1e-6)
    hidden = np.tanh(np.tanh(sums) @ k1 + b1)
    np.testing.assert_allclose(logits, hidden @ k2 + b2, rtol=1e-5)
    limit = np.sqrt(6 / (2 + 3))
    assert limit / 4 < np.abs(k0).max() <= limit
    assert [layer.kernel for layer in part.layers] == part.variables[::2]
    assert [layer.bias for layer in part.layers] == part.variables[1::2]
    assert part.updates == []
    assert v1.get_collection(v1.GraphKeys.SUMMARIES) == []
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        assert dense(tf.constant(FEATURES["x"]), 2).layers == []


def test_an_activation_may_be_given_by_its_name(graph):
    part = network(activation_fn="tanh").build(FEATURES, 1, ModeKeys.EVAL, None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        sums, hidden = session.run([part.layers[0].outputs, part.layers[1].inputs])
    assert np.ptp(sums) > 0
    np.testing.assert_allclose(hidden, np.tanh(sums), rtol=1e-6)


def test_dropout_is_of_training_only(graph):
    layers = []
    for mode in (ModeKeys.TRAIN, ModeKeys.PREDICT):
        with v1.variable_scope("", reuse=bool(layers)):
            layers.append(network([1000], dropout=0.5).build(FEATURES, 1, mode, None).layers[1])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        trained, predicted = session.run([layer.inputs for layer in layers])
    alive = predicted > 0
    assert np.mean(trained[alive] > 0) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(trained[trained > 0], 2 * predicted[trained > 0], rtol=1e-6)


def test_batch_normalization_follows_each_hidden_layer(graph):
    part = network([3, 2], batch_norm=True).build(FEATURES, 1, ModeKeys.TRAIN, None)
    names = {each.op.name for each in v1.global_variables()}
    assert {f"dnn/hiddenlayer_1/batchnorm_1/{name}" for name in ("gamma", "moving_mean")} < names
    assert len(part.updates) == 4
    assert "dnn/hiddenlayer_0/batchnorm_0/beta" in [each.op.name for each in part.variables]


def test_builder_leaves_the_scope_to_its_caller(graph):
    logit_fn = dnn_logit_fn_builder(
        units=2,
        hidden_units=[3],
        feature_columns=[X, fc.embedding_column(fc.categorical_column_with_identity("i", 4), 2)],
        activation_fn=tf.nn.relu,
        dropout=None,
        input_layer_partitioner=v1.fixed_size_partitioner(2),
        batch_norm=False,
    )
    with pytest.raises(ValueError, match="units must be an int"):
        dnn_logit_fn_builder({"head": 2}, [3], [X])
    with v1.variable_scope("mine"):
        logits = logit_fn(features={**FEATURES, "i": [1, 2]}, mode=ModeKeys.TRAIN)
    assert logits.shape.as_list() == [2, 2]
    table = "mine/input_from_feature_columns/input_layer/i_embedding/embedding_weights/part_"
    assert [each.op.name for each in v1.trainable_variables()] == [
        f"{table}0",
        f"{table}1",
        *(
            f"mine/{layer}/{name}"
            for layer in ("hiddenlayer_0", "logits")
            for name in ("kernel", "bias")
        ),
    ]


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"hidden_units": 3}, ValueError, "hidden_units must be a list .* got 3"),
        ({"hidden_units": [3, 0]}, ValueError, r"hidden_units must be ints ≥ 1, got \[3, 0\]"),
        ({"hidden_units": [2.5]}, ValueError, "hidden_units must be ints"),
        ({"dropout": 1.0}, ValueError, r"dropout must be in \[0, 1\), .* got 1\.0"),
        (
            {"activation_fn": "rely"},
            TypeError,
            "activation_fn must be a function or None, got 'rely'",
        ),
        ({"input_layer_partitioner": 2}, TypeError, "input_layer_partitioner must be a function"),
        ({"columns": []}, ValueError, "feature_columns must hold at least one"),
    ],
)
def test_settings_out_of_range_are_refused(changes, kind, text):
    with pytest.raises(kind, match=text):
        network(**changes)


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


def test_batch_without_rows_has_finite_gradients(graph, evaluate):
    """A tower may get no row of a small batch."""
    inputs = v1.placeholder_with_default(np.zeros([0, 2], np.float32), [None, 2])
    outputs = batch_normalization(inputs, "batchnorm_0", is_training=True).outputs
    gradients = tf.gradients(tf.reduce_sum(outputs), v1.trainable_variables())
    np.testing.assert_array_equal(evaluate(gradients), np.zeros([2, 2]))


def masks(seed):
    """Dropout of ones in two layers, at two steps; and the types of the operations."""
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
            for _ in range(2):
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
    assert masks(None)[0][0].tobytes() != masks(None)[0][0].tobytes()


def test_towers_drop_different_values(graph, evaluate):
    v1.train.create_global_step()
    found = []
    with tower_scopes(
        TowerSettings(device_plan(["/cpu:0", "/cpu:1"]), averages_loss=True)
    ) as scopes:
        for index in range(2):
            with scopes.tower(index, 0.5), v1.variable_scope("layer", reuse=v1.AUTO_REUSE):
                found.append(dropout(tf.constant(ONES), 0.25))
    first, second = evaluate(found)
    assert (first != second).mean() == pytest.approx(2 * 0.25 * 0.75, abs=0.03)
