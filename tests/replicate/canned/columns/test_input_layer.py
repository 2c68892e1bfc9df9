"""Input of a network: values of every kind of column against NumPy, names, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_kinds import dense_columns
from replicate.canned.columns.input_layer import input_layer

v1 = tf.compat.v1
fc = tf.feature_column

WORDS = ["a", "b", "c"]
TABLE = np.arange(6, dtype=np.float32).reshape(3, 2) + 1
FEATURES = {
    "age": [[10.0], [25.0], [40.0]],
    "size": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "word": [["a"], ["c"], ["none"]],
}


def table(values=TABLE):
    return v1.constant_initializer(values)


def word():
    return fc.categorical_column_with_vocabulary_list("word", WORDS)


def other():
    return fc.categorical_column_with_vocabulary_list("other", WORDS)


def computed(features, columns, scope="dnn"):
    """Returns the values of the layer, and the names of its variables."""
    with v1.variable_scope(scope):
        layer = input_layer(features, dense_columns("feature_columns", columns))
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return session.run(layer.values), [each.op.name for each in v1.global_variables()], layer


def test_values_stand_in_the_order_of_names_of_columns(graph):
    age = fc.numeric_column("age")
    columns = [
        fc.embedding_column(word(), 2, initializer=table()),
        fc.indicator_column(word()),
        fc.numeric_column("size", shape=[2], normalizer_fn=lambda x: x / 2),
        fc.bucketized_column(age, [20, 30]),
        age,
    ]
    values, names, _ = computed(FEATURES, columns)
    np.testing.assert_allclose(
        values,
        [  # age, age_bucketized, size, word_embedding, word_indicator
            [10, 1, 0, 0, 0.5, 1, 1, 2, 1, 0, 0],
            [25, 0, 1, 0, 1.5, 2, 5, 6, 0, 0, 1],
            [40, 0, 0, 1, 2.5, 3, 0, 0, 0, 0, 0],
        ],
    )
    assert names == ["dnn/input_layer/word_embedding/embedding_weights"]


def test_sparse_ragged_and_weighted_ids_are_combined(graph):
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["a", "b", "c"], [3, 2])
    weights = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1.0, 3.0, 2.0], [3, 2])
    columns = [
        fc.embedding_column(word(), 2, combiner="mean", initializer=table()),
        fc.embedding_column(
            fc.weighted_categorical_column(word(), "weight"), 2, "sum", initializer=table()
        ),
        fc.embedding_column(other(), 2, combiner="sqrtn", initializer=table()),
    ]
    ragged = tf.ragged.constant([["a", "c"], [], ["b"]])
    values, _, layer = computed({"word": ids, "weight": weights, "other": ragged}, columns)
    np.testing.assert_allclose(
        values,
        [  # other_embedding, word_embedding, word_weighted_by_weight_embedding
            [6 / 2**0.5, 8 / 2**0.5, 2, 3, 10, 14],
            [0, 0, 0, 0, 0, 0],
            [3, 4, 5, 6, 10, 12],
        ],
        rtol=1e-6,
    )
    assert layer.layers == []


def test_single_ids_are_gathered_and_recorded(graph):
    column = fc.categorical_column_with_identity("my word", 3)
    columns = [fc.embedding_column(column, 2, initializer=table())]
    values, names, layer = computed({"my word": [1, -1, 2]}, columns)
    assert names == ["dnn/input_layer/my_word_embedding/embedding_weights"]
    np.testing.assert_allclose(values, [[3, 4], [0, 0], [5, 6]])
    (record,) = layer.layers
    assert (record.kind, record.bias) == ("embedding", None)
    assert record.kernel is v1.trainable_variables()[0]
    assert record.inputs.shape.rank == 1
    assert record.outputs.shape.as_list() == [3, 2]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (fc.shared_embeddings, "other_word_shared_embedding"),
        (
            v1.feature_column.shared_embedding_columns,
            "input_layer/other_word_shared_embedding/embedding_weights",
        ),
    ],
    ids=["v2", "v1"],
)
def test_shared_embeddings_have_one_table(graph, make, name):
    """The newer columns' tables are in the scope of the caller. A second tower shares them."""
    columns = make([word(), other()], 2, initializer=table())
    features = {"word": ["a", "b"], "other": [["c"], ["b"]]}
    values, names, _ = computed(features, columns)
    np.testing.assert_allclose(values, [[5, 6, 1, 2], [3, 4, 3, 4]])
    assert names == [f"dnn/{name}"]
    with v1.variable_scope("", reuse=True):
        _, names, _ = computed(features, columns)
    assert names == [f"dnn/{name}"]


def test_partitioned_tables_give_the_same_values(graph):
    columns = [fc.embedding_column(word(), 2, initializer=v1.ones_initializer())]
    with v1.variable_scope("all", partitioner=v1.fixed_size_partitioner(2)):
        values, names, layer = computed({"word": ["b", "none"]}, columns)
    np.testing.assert_allclose(values, [[1, 1], [0, 0]])
    prefix = "all/dnn/input_layer/word_embedding/embedding_weights"
    assert names == [f"{prefix}/part_0", f"{prefix}/part_1"]
    assert layer.layers == []
