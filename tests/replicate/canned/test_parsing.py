"""Specs of examples with labels and weights: contents, parsing, and errors."""

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


def test_classifier_reads_class_ids_or_names_and_weights():
    label = tf.io.FixedLenFeature((1,), tf.int64)
    assert classifier_parse_example_spec(COLUMNS, "y") == {**FEATURES, "y": label}
    weights = fc.numeric_column("w", default_value=1.0)
    spec = classifier_parse_example_spec(iter(COLUMNS), "y", tf.string, "none", weights)
    assert spec == {
        **FEATURES,
        "y": tf.io.FixedLenFeature((1,), tf.string, "none"),
        "w": tf.io.FixedLenFeature((1,), tf.float32, (1.0,)),
    }


def test_regressor_reads_numbers_and_weights():
    spec = regressor_parse_example_spec(
        COLUMNS, "y", label_default=[7.0, 8.0], label_dimension=2, weight_column="w"
    )
    assert spec == {
        **FEATURES,
        "y": tf.io.FixedLenFeature((2,), tf.float32, [7.0, 8.0]),
        "w": tf.io.FixedLenFeature((1,), tf.float32),
    }


@pytest.mark.parametrize(
    ("label_key", "weight_column", "message"),
    [
        ("age", None, r"the label's key 'age' is also the key of a feature\. .*'city', 'visits'"),
        ("y", "city", r"the key of weight_column, 'city', is also the key of a feature"),
        ("y", fc.numeric_column("y"), r"the key of weight_column, 'y', is also .* of the label"),
        ("y", COLUMNS[1], r"weight_column must be a key or a tf.*numeric_column, got EmbeddingCol"),
    ],
)
def test_clash_of_keys_is_refused(label_key, weight_column, message):
    for make_spec in (classifier_parse_example_spec, regressor_parse_example_spec):
        with pytest.raises(ValueError, match=rf"{make_spec.__name__}: {message}"):
            make_spec(COLUMNS, label_key, weight_column=weight_column)
