"""Networks against NumPy: logits, dropout, batch normalization, summaries, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.network import dnn_logit_fn_builder, make_network
from replicate.spec import ModeKeys

v1 = tf.compat.v1
fc = tf.feature_column

X = fc.numeric_column("x", shape=[2])
FEATURES = {"x": [[1.0, 2.0], [-3.0, 1.0]]}


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
        logits = session.run(part.logits)
    hidden = np.tanh(np.tanh(FEATURES["x"] @ k0 + b0) @ k1 + b1)
    np.testing.assert_allclose(logits, hidden @ k2 + b2, rtol=1e-5)
    assert [layer.kernel for layer in part.layers] == part.variables[::2]
    assert part.updates == []
    assert v1.get_collection(v1.GraphKeys.SUMMARIES) == []


def test_summaries_of_training_are_per_layer(graph):
    network().build(FEATURES, 1, ModeKeys.TRAIN, None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    assert [value.tag for value in summary.value] == [
        f"dnn/{layer}/{name}"
        for layer in ("hiddenlayer_0", "logits")
        for name in ("fraction_of_zero_values", "activation")
    ]


def test_dropout_is_of_training_only(graph):
    """Half of the 1000 units are dropped, and the others are doubled."""
    built = {}
    for mode in (ModeKeys.TRAIN, ModeKeys.PREDICT):
        with v1.variable_scope("", reuse=bool(built)):
            built[mode] = network([1000], dropout=0.5, batch_norm=False).build(
                FEATURES, 1, mode, None
            )
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        kernel, bias, out, _ = built[ModeKeys.TRAIN].variables
        kernel.load(np.zeros(kernel.shape, np.float32), session)
        bias.load(np.ones(1000, np.float32), session)
        out.load(np.ones([1000, 1], np.float32), session)
        predicted = session.run(built[ModeKeys.PREDICT].logits)
        trained = session.run(built[ModeKeys.TRAIN].logits)
    np.testing.assert_allclose(predicted, [[1000], [1000]])
    assert ((trained > 800) & (trained < 1200) & (trained % 2 == 0)).all()
    assert trained[0] != trained[1]


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
        ({"activation_fn": "relu"}, TypeError, "activation_fn must be a function or None"),
        ({"input_layer_partitioner": 2}, TypeError, "input_layer_partitioner must be a function"),
        ({"columns": []}, ValueError, "feature_columns must hold at least one"),
    ],
)
def test_settings_out_of_range_are_refused(changes, kind, text):
    with pytest.raises(kind, match=text):
        network(**changes)


def test_units_must_be_an_int():
    with pytest.raises(ValueError, match="units must be an int"):
        dnn_logit_fn_builder({"head": 2}, [3], [X])
