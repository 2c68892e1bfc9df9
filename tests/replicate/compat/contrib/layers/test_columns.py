"""Feature columns of tf.contrib.layers, and inputs made of them, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import layers

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


FEATURES = {
    "n": [[0.5], [2.0]],
    "pair": [[1.0, 2.0], [3.0, 4.0]],
    "i": [[1], [4]],
    "word": [["x"], ["z"]],
    "line": [["a"], ["b"]],
    "weight": [[2.0], [3.0]],
}


def features():
    tensors = {name: tf.constant(rows) for name, rows in FEATURES.items()}
    return {**tensors, "i": tf.cast(tensors["i"], tf.int64)}


def test_columns_give_their_numbers(tmp_path, evaluate):
    path = tmp_path / "words"
    path.write_text("a\nc\n")
    keys, of_file = layers.sparse_column_with_keys, layers.sparse_column_with_vocabulary_file
    halves = layers.bucketized_column(layers.real_valued_column("n"), [1.0, 0.0])
    weighted = layers.weighted_sparse_column(keys("word", ["x", "z"]), "weight")
    cases = [
        (layers.real_valued_column("n", normalizer=lambda x: 2 * x), [[1], [4]]),
        (layers.real_valued_column("pair", 2), [[1, 2], [3, 4]]),
        (halves, [[0, 1, 0], [0, 0, 1]]),
        (layers.sparse_column_with_integerized_feature("i", 5), [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]),
        (keys("word", ["x", "y"]), [[1, 0], [0, 0]]),
        (weighted, [[2, 0], [0, 3]]),
        (of_file("line", str(path), vocab_size=2), [[1, 0], [0, 0]]),
        (of_file("line", str(path), 1, 2), [[1, 0, 0], [0, 0, 1]]),
    ]
    columns = [
        column if i < 2 else layers.one_hot_column(column) for i, (column, _) in enumerate(cases)
    ]
    inputs = [layers.input_from_feature_columns(features(), [column]) for column in columns]
    for found, (_, expected) in zip(evaluate(inputs), cases, strict=True):
        np.testing.assert_allclose(found, expected)


def test_embeddings_and_crosses_have_the_variables_of_tensorflow_1(evaluate):
    hashed = layers.sparse_column_with_hash_bucket("word", 10)
    keys = layers.sparse_column_with_keys("line", ["a", "b"])
    crossed = layers.crossed_column([hashed, keys], 20)
    columns = [
        layers.real_valued_column("n"),
        layers.embedding_column(hashed, 3, initializer=v1.constant_initializer(2.0)),
        layers.embedding_column(crossed, 2),
        *layers.shared_embedding_columns([keys], 4, shared_embedding_name="shared"),
    ]
    inputs = layers.input_from_feature_columns(features(), columns)
    shapes = {each.op.name: each.shape.as_list() for each in v1.global_variables()}
    assert shapes == {
        "input_from_feature_columns/word_embedding/weights": [10, 3],
        "input_from_feature_columns/line_X_word_embedding/weights": [20, 2],
        "input_from_feature_columns/shared/weights": [2, 4],
    }
    assert v1.get_collection(v1.GraphKeys.MODEL_VARIABLES) == v1.global_variables()
    result = evaluate(inputs)
    assert result.shape == (2, 10)
    np.testing.assert_array_equal(result[:, 9], [0.5, 2.0])  # Columns of numbers come last.
    assert (result == 2.0).sum() == 7
    deviation = 1 / np.sqrt(20)
    drawn = layers.embedding_column(crossed, 2).initializer
    assert drawn.stddev == pytest.approx(deviation)


def test_weighted_sum_has_the_variables_of_tensorflow_1():
    keys = layers.sparse_column_with_keys("word", ["x", "z"])
    number = layers.real_valued_column("n")
    outputs, variables, bias = layers.weighted_sum_from_feature_columns(
        features(), [keys, number], 2
    )
    names = {column.name: each.op.name for column, (each,) in variables.items()}
    assert names == {
        "word": "weighted_sum_from_feature_columns/word/weights",
        "n": "weighted_sum_from_feature_columns/n/weight",
    }
    assert bias.op.name == "weighted_sum_from_feature_columns/bias_weight"
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(variables[keys][0].assign([[1.0, 2.0], [3.0, 4.0]]))
        session.run([variables[number][0].assign([[10.0, 20.0]]), bias.assign([0.5, 0.0])])
        np.testing.assert_allclose(session.run(outputs), [[6.5, 12], [23.5, 44]])


def test_columns_are_parsed_and_inferred(evaluate):
    columns = [layers.real_valued_column("n"), layers.sparse_column_with_keys("word", ["x"])]
    example = tf.train.Example()
    example.features.feature["n"].float_list.value[:] = [3.0]
    example.features.feature["word"].bytes_list.value[:] = [b"x", b"y"]
    parsed = layers.parse_feature_columns_from_examples([example.SerializeToString()], columns)
    assert set(layers.create_feature_spec_for_parsing(columns)) == {"n", "word"}
    result = evaluate(parsed)
    np.testing.assert_array_equal(result["n"], [[3]])
    assert list(result["word"].values) == [b"x", b"y"]
    (inferred,) = layers.infer_real_valued_columns(tf.ones([2, 4]))
    assert (inferred.key, inferred.shape) == ("", (4,))
    both = layers.infer_real_valued_columns({"b": tf.ones([2, 1]), "a": tf.ones([2])})
    assert [(each.key, each.shape) for each in both] == [("a", (1,)), ("b", (1,))]


number, hashed = layers.real_valued_column, layers.sparse_column_with_hash_bucket


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: number("n", None), "dimension=None"),
        (lambda: hashed("n", 9, "mean"), "combiner='mean'"),
        (lambda: hashed("n", 9, hash_keys=[1, 2]), r"hash_keys=\[1, 2\]"),
        (lambda: layers.sparse_column_with_integerized_feature("n", 9, dtype=tf.float32),
         "an integer type"),
        (lambda: layers.sparse_column_with_vocabulary_file("n", "f"), "needs vocab_size"),
        (lambda: layers.crossed_column(["a", "b"], 9, ckpt_to_load_from="x"), "ckpt_to_load_from"),
        (lambda: layers.shared_embedding_columns([], 9), "got no columns"),
        (lambda: layers.check_feature_columns([number("n")] * 2), r"two of \['n'\]"),
        (lambda: layers.infer_real_valued_columns(v1.placeholder(tf.float32)),
         "needs the shape of the feature ''"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
