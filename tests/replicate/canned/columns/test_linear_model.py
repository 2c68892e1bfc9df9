"""Linear model of feature columns: logits of every kind of column against NumPy, names, errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_kinds import linear_columns
from replicate.canned.columns.linear_model import linear_model

v1 = tf.compat.v1
fc = tf.feature_column

WORDS = ["a", "b", "c"]


def word(key="word"):
    return fc.categorical_column_with_vocabulary_list(key, WORDS)


def built(features, columns, units=1, combiner="sum"):
    with v1.variable_scope("linear"):
        return linear_model(features, linear_columns("feature_columns", columns), units, combiner)


def logits(model, values):
    """Returns the logits after the variables took values, by their names below linear_model."""
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for variable in v1.global_variables():
            name = variable.op.name.removeprefix("linear/linear_model/")
            variable.load(np.array(values[name], np.float32), session)
        return session.run(model.logits)


def test_logits_are_the_sum_over_columns_and_the_bias(graph):
    age = fc.numeric_column("age")
    columns = [age, fc.numeric_column("size", [2]), fc.bucketized_column(age, [20.0]), word()]
    features = {"age": [10.0, 30.0], "size": [[1.0, 2.0], [3.0, 4.0]], "word": ["b", "none"]}
    model = built(features, columns, units=2)
    values = {
        "age/weights": [[1, 2]],
        "age_bucketized/weights": [[10, 20], [30, 40]],
        "size/weights": [[1, 0], [0, 1]],
        "word/weights": [[1, 2], [3, 4], [5, 6]],
        "bias_weights": [100, 200],
    }
    np.testing.assert_allclose(
        logits(model, values),
        [
            [10 + 10 + 1 + 3 + 100, 20 + 20 + 2 + 4 + 200],
            [30 + 30 + 3 + 0 + 100, 60 + 40 + 4 + 0 + 200],
        ],
    )
    assert [layer.kind for layer in model.layers] == ["dense", "embedding", "dense", "embedding"]
    assert [layer.kernel for layer in model.layers] == list(model.weights)
    assert [layer.bias is model.bias for layer in model.layers] == [True, False, False, False]


@pytest.mark.parametrize(("combiner", "first"), [("mean", 2.0), ("sqrtn", 4 / 2**0.5)])
def test_ids_of_an_example_are_combined(graph, combiner, first):
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["a", "b", "c"], [3, 2])
    model = built({"word": ids}, [word()], combiner=combiner)
    values = {"word/weights": [[1], [3], [5]], "bias_weights": [0]}
    np.testing.assert_allclose(logits(model, values), [[first], [0], [5]], rtol=1e-6)


def test_weighted_crossed_embedded_and_sequence_columns(graph):
    sequence = fc.sequence_categorical_column_with_identity("steps", 3)
    columns = [
        fc.weighted_categorical_column(word(), "weight"),
        fc.crossed_column(["word", "other"], 1),
        fc.embedding_column(word("other"), 1),
        sequence,
    ]
    features = {
        "word": ["a", "b"],
        "weight": [[2.0], [3.0]],
        "other": ["b", "c"],
        "steps": [[0, 2], [1, 1]],
    }
    values = {
        "other_X_word/weights": [[1000]],
        "word_X_other/weights": [[1000]],
        "other_embedding/embedding_weights": [[1], [2], [3]],
        "other_embedding/weights": [[10]],
        "steps/weights": [[100], [200], [300]],
        "word_weighted_by_weight/weights": [[1], [2], [3]],
        "bias_weights": [0],
    }
    model = built(features, columns)
    np.testing.assert_allclose(
        logits(model, values), [[2 + 1000 + 20 + 400], [6 + 1000 + 30 + 400]]
    )


def test_shared_columns_of_v1_are_computed_by_v1(graph, evaluate):
    columns = v1.feature_column.shared_embedding_columns([word(), word("other")], 2)
    model = built({"word": ["a"], "other": ["b"]}, columns)
    names = sorted(each.op.name for each in v1.global_variables())
    assert names[0] == "linear/linear_model/bias_weights"
    assert model.bias.op.name == names[0]
    assert len(names) == 4
    assert model.layers == []
    np.testing.assert_allclose(evaluate(model.logits), [[0]])


def test_partitioned_weights_give_the_same_logits(graph):
    with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3)):
        features = {"word": ["b", "c"], "x": [[1.0, 2.0, 3.0]] * 2}
        model = built(features, [word(), fc.numeric_column("x", [3])])
    names = sorted(each.op.name for each in v1.global_variables())
    assert "linear/linear_model/word/weights/part_2" in names
    assert model.layers == []
    values = {f"word/weights/part_{i}": [[i + 1]] for i in range(3)}
    values |= {f"x/weights/part_{i}": [[10 * i]] for i in range(3)}
    values |= {"bias_weights/part_0": [100]}
    np.testing.assert_allclose(logits(model, values), [[2 + 80 + 100], [3 + 80 + 100]])


def test_missing_feature_names_its_column(graph):
    with pytest.raises(ValueError, match=r"feature column 'word': features has no 'word'"):
        built({"x": [1.0]}, [word()])
