"""Columns: their tensors, tables and shapes, their order, and those that a model cannot take."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.canned.columns.column_cache import ColumnCache, MissingFeatureError
from replicate.canned.columns.column_kinds import dense_columns, linear_columns
from replicate.canned.columns.column_tensors import ColumnState, ColumnTensors, look_up
from replicate.canned.columns.input_layer import input_layer
from replicate.canned.columns.linear_model import linear_model
from replicate.errors import ArgumentTypeError
from replicate.estimator.warm_start import WarmStartSettings, apply_warm_start
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
fc = tf.feature_column
TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
SHARED = np.array([[1, 2], [3, 4]], np.float32)
KEYS = ("city", "job")
FEATURES = {"city": [0, 1], "job": [1, 1]}
IDS = fc.categorical_column_with_identity("id", 3)
X = fc.numeric_column("x")
WORD = fc.categorical_column_with_vocabulary_list("word", ["a", "b"])
STEPS = fc.sequence_categorical_column_with_identity("steps", 3)


def test_column_with_max_norm_is_looked_up_by_tensorflow(graph, evaluate):
    column = fc.embedding_column(
        IDS, 1, initializer=v1.constant_initializer([[3.0], [0.5], [-2.0]]), max_norm=1.0
    )
    tensors = ColumnTensors({"id": [0, 1, 2]})
    tensors.create_variables(column)
    value = tensors.dense(column)
    assert value.layers == []
    np.testing.assert_allclose(evaluate(value.values), [[1], [0.5], [-1]])


def test_other_values_than_the_column_has_are_refused(graph):
    column = fc.numeric_column("x", [2])
    assert ColumnTensors({"x": np.ones([4, 2])}).dense(column).layers == []
    text = r"column 'x': it takes 2 values for each example\..* Received shape "
    with pytest.raises(ValueError, match=text + r"\(4, 1\)\.$"):
        ColumnTensors({"x": np.ones([4, 1])}).dense(column)
    given = v1.placeholder(tf.float32, [None, None])
    value = ColumnTensors({"x": given}).dense(column).values
    with v1.Session() as session:
        assert session.run(value, {given: [[1, 2]]}).tolist() == [[1, 2]]
        with pytest.raises(ValueError, match=text + r"\[4 1\]\.$"), user_errors():
            session.run(value, {given: np.ones([4, 1])})
    column = fc.bucketized_column(fc.numeric_column("x"), [0.0])
    with pytest.raises(ValueError, match="column 'x': it takes numbers, but feature 'x' is of"):
        ColumnTensors({"x": [["1"]]}).dense(column)


def test_gathered_rows_have_the_gradient_of_combined_ones(graph):
    table = v1.get_variable("table", initializer=TABLE)
    ids = tf.SparseTensor([[0, 0], [2, 0], [3, 0]], tf.constant([1, 0, 1], tf.int64), [4, 1])
    shape = v1.placeholder_with_default(np.array([4, 1]), [2])
    unknown = tf.SparseTensor(ids.indices, ids.values, shape)
    factors = np.arange(8, dtype=np.float32).reshape(4, 2)
    results = []
    for each in (ids, unknown):
        pair = SimpleNamespace(id_tensor=each, weight_tensor=None)
        rows = look_up(table, pair, "mean")
        gradient = tf.convert_to_tensor(tf.gradients(rows.values * factors, table)[0])
        results.append((rows.values, gradient))
        assert (rows.layer is None) == (each is unknown)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for values, gradient in session.run(results):
            np.testing.assert_allclose(values, [[3, 4], [0, 0], [1, 2], [3, 4]])
            np.testing.assert_allclose(gradient, [[4, 5], [6, 8], [0, 0]])


def test_what_a_column_has_not_made_is_named():
    state = ColumnState()
    for find, kind in ((state.get_variable, "variable"), (state.get_resource, "lookup table")):
        with pytest.raises(ValueError, match=f"Feature column 'x' has no {kind} 'w'"):
            find(X, "w")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.0, 2.0], [[1], [2]]),
        (lambda: v1.placeholder_with_default([5.0, 6.0], None), [[5], [6]]),
        (lambda: v1.placeholder_with_default([[5.0], [6.0]], None), [[5], [6]]),
        (lambda: tf.sparse.from_dense([1, 0, 2]), [[1], [0], [2]]),
        (v1.SparseTensorValue([[1, 0]], [7], [2, 2]), [[0, 0], [7, 0]]),
        (lambda: tf.ragged.constant([[1], [2, 3]]), [[1, 0], [2, 3]]),
    ],
    ids=["list", "vector", "matrix", "sparse vector", "sparse value", "ragged"],
)
def test_feature_has_an_axis_besides_the_batch(graph, value, expected, evaluate):
    found = ColumnCache({"x": value() if callable(value) else value}).get("x", None)
    dense = tf.sparse.to_dense(found) if isinstance(found, tf.SparseTensor) else found
    np.testing.assert_array_equal(evaluate(dense), expected)


def test_column_is_computed_once(graph):
    """Categorical columns, such as crossed ones, ask for their features one by one."""
    column = mock.Mock(spec=["transform_feature"])
    column.transform_feature.side_effect = lambda cache, state: 2 * cache.get("x", state)
    cache = ColumnCache({"x": [1.0], "scalar": 1.0})
    assert cache.get(column, None) is cache.get(column, None, training=True)
    assert column.transform_feature.call_count == 1
    with pytest.raises(MissingFeatureError, match=r"no 'y'; it has \['scalar', 'x'\]") as caught:
        cache.get("y", None)
    assert caught.value.key == "y"
    with pytest.raises(ValueError, match="Feature 'scalar' must have an axis of examples"):
        cache.get("scalar", None)


def test_columns_are_ordered_by_name():
    columns = [X, fc.indicator_column(WORD), fc.bucketized_column(fc.numeric_column("a"), [0.0])]
    for choose in (dense_columns, linear_columns):
        names = [column.name for column in choose("feature_columns", iter(columns))]
        assert names == ["a_bucketized", "word_indicator", "x"]
    assert linear_columns("feature_columns", [STEPS, WORD]) == (STEPS, WORD)
    assert dense_columns("feature_columns", X) == (X,)


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        ([], ValueError, "columns must hold at least one feature column"),
        ({"x": X}, ValueError, "columns must be a list of feature columns, got {'x'"),
        (["x"], ArgumentTypeError, "columns must hold feature columns, got 'x'"),
        ([X, X], ValueError, r"different names, got \['x'\] more than once"),
        ([fc.embedding_column(STEPS, 2)], ValueError, "the sequence column 'steps_embedding'"),
    ],
)
def test_unusable_columns_are_refused(columns, kind, text):
    for choose in (dense_columns, linear_columns):
        with pytest.raises(kind, match=text):
            choose("columns", columns)


def test_network_refuses_categorical_columns():
    with pytest.raises(ValueError, match=r"categorical column 'word' .*embedding_column or"):
        dense_columns("feature_columns", [X, WORD])
    with pytest.raises(ValueError, match="sequence column 'steps' of feature_columns"):
        dense_columns("feature_columns", [STEPS])


def columns(make):
    ids = [fc.categorical_column_with_identity(key, 2) for key in KEYS]
    return make(ids, 2, initializer=v1.ones_initializer())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Writes a table under a name, and returns the path of the checkpoint."""

    def save(name):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.get_variable(name, initializer=SHARED)
            session.run(v1.global_variables_initializer())
            return v1.train.Saver().save(session, str(tmp_path_factory.mktemp("old") / "model"))

    return save


MAKERS = [fc.shared_embeddings, v1.feature_column.shared_embedding_columns]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (MAKERS[0], "city_job_shared_embedding"),
        (MAKERS[0], "dnn/input_layer/city_job_shared_embedding/embedding_weights"),
        (MAKERS[1], "dnn/city_job_shared_embedding"),
    ],
)
def test_network_takes_a_table_of_any_name(make, name, checkpoint, graph, evaluate):
    with v1.variable_scope("dnn"):
        layer = input_layer(FEATURES, columns(make))
    apply_warm_start(WarmStartSettings(checkpoint(name)))
    np.testing.assert_array_equal(evaluate(layer.values), [[1, 2, 3, 4], [3, 4, 3, 4]])


def test_linear_model_takes_a_table_without_scope(checkpoint, graph, evaluate):
    with v1.variable_scope("linear"):
        linear_model(FEATURES, columns(fc.shared_embeddings), 1, "sum")
    settings = WarmStartSettings(
        checkpoint("city_job_shared_embedding"), vars_to_warm_start=".*shared_embedding:0"
    )
    apply_warm_start(settings)
    (table,) = v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, "linear/city_job_shared_embedding")
    np.testing.assert_array_equal(evaluate(table), SHARED)


@pytest.mark.parametrize(
    ("make", "parts"), [(MAKERS[0], 2), pytest.param(MAKERS[1], None, marks=pytest.mark.broad)]
)
def test_towers_share_the_tables(make, parts, train_steps, tmp_path):
    batch = {"city": np.array([0, 1, 1, 0]), "job": np.array([1, 1, 0, 0])}, np.array([0, 1, 1, 0])
    found = []
    for devices in (None, ["/cpu:0", "/cpu:1"]):
        with tf.Graph().as_default():
            shared = columns(make)
        estimator = replicate.DNNClassifier(
            [],
            shared,
            str(tmp_path),
            optimizer=v1.train.GradientDescentOptimizer(0.1),
            input_layer_partitioner=parts and v1.fixed_size_partitioner(parts),
            devices=devices,
        )
        kernel = {"dnn/logits/kernel": np.ones([4, 1], np.float32)}
        done = train_steps(estimator, *batch, steps=2, initial=kernel)
        found.append(done)
    assert sorted(found[0].variables) == sorted(found[1].variables)
    tables = [name for name in found[0].variables if "city_job_shared_embedding" in name]
    assert len(tables) == (parts or 1)
    for name in tables:
        np.testing.assert_allclose(
            found[1].variables[name], found[0].variables[name], rtol=1e-5, err_msg=name
        )
        assert not np.allclose(found[0].variables[name], 1)
