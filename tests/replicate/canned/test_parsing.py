"""Specs of examples with labels and weights: contents, parsing, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.parsing import classifier_parse_example_spec, regressor_parse_example_spec

fc = tf.feature_column
COLUMNS = [
    fc.numeric_column("age", shape=[2]),
    fc.embedding_column(fc.categorical_column_with_hash_bucket("city", 10), 3),
    fc.indicator_column(fc.sequence_categorical_column_with_identity("visits", 5)),
]
FEATURES = {
    "age": tf.io.FixedLenFeature((2,), tf.float32),
    "city": tf.io.VarLenFeature(tf.string),
    "visits": tf.io.VarLenFeature(tf.int64),
}


def test_classifier_reads_one_class_id():
    label = tf.io.FixedLenFeature((1,), tf.int64)
    assert classifier_parse_example_spec(COLUMNS, "y") == {**FEATURES, "y": label}


def test_classifier_reads_names_with_a_default_and_weights():
    weights = fc.numeric_column("w", default_value=1.0)
    spec = classifier_parse_example_spec(iter(COLUMNS), "y", tf.string, "none", weights)
    assert spec == {
        **FEATURES,
        "y": tf.io.FixedLenFeature((1,), tf.string, "none"),
        "w": tf.io.FixedLenFeature((1,), tf.float32, (1.0,)),
    }


def test_regressor_reads_numbers_and_weights():
    spec = regressor_parse_example_spec(COLUMNS, "y", label_dimension=2, weight_column="w")
    assert spec == {
        **FEATURES,
        "y": tf.io.FixedLenFeature((2,), tf.float32),
        "w": tf.io.FixedLenFeature((1,), tf.float32),
    }


def test_default_label_stands_for_a_missing_one():
    spec = regressor_parse_example_spec(
        [fc.numeric_column("age")], "y", label_default=[7.0, 8.0], label_dimension=2
    )
    age = tf.train.Feature(float_list=tf.train.FloatList(value=[5.0]))
    example = tf.train.Example(features=tf.train.Features(feature={"age": age}))
    parsed = tf.io.parse_example([example.SerializeToString()], spec)
    np.testing.assert_array_equal(parsed["y"], [[7.0, 8.0]])
    np.testing.assert_array_equal(parsed["age"], [[5.0]])


@pytest.mark.parametrize(
    "make_spec", [classifier_parse_example_spec, regressor_parse_example_spec], ids=["c", "r"]
)
@pytest.mark.parametrize(
    ("label_key", "weight_column", "message"),
    [
        ("age", None, r"the label's key 'age' is also the key of a feature\. .*'city', 'visits'"),
        ("y", "city", r"the key of weight_column, 'city', is also the key of a feature"),
        ("y", fc.numeric_column("y"), r"the key of weight_column, 'y', is also .* of the label"),
        ("y", 1, r"weight_column must be a key or a tf.feature_column.numeric_column, got 1"),
        ("y", COLUMNS[1], r"weight_column must be a key .* got EmbeddingColumn"),
    ],
)
def test_clash_of_keys_is_refused(make_spec, label_key, weight_column, message):
    with pytest.raises(ValueError, match=rf"{make_spec.__name__}: {message}"):
        make_spec(COLUMNS, label_key, weight_column=weight_column)
