"""Parsing specs are those of tf.estimator."""

import itertools

import pytest
import tensorflow as tf

from replicate.canned import parsing

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

fc = tf.feature_column
COLUMNS = [
    fc.numeric_column("age", shape=[2]),
    fc.embedding_column(fc.categorical_column_with_hash_bucket("city", 10), 3),
    fc.indicator_column(fc.sequence_categorical_column_with_identity("visits", 5)),
]
WEIGHTS = [None, "w", fc.numeric_column("w", shape=2, default_value=1.0)]
SETTINGS = [{}, {"label_default": [3.0]}, {"label_dtype": tf.string, "label_default": "a"}]


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_specs_are_the_stock_ones(name):
    ours, stock = (
        getattr(module, f"{name}_parse_example_spec") for module in (parsing, tf.estimator)
    )
    for settings, weights in itertools.product(SETTINGS, WEIGHTS):
        arguments = {**settings, "weight_column": weights}
        expected = stock(COLUMNS, "y", **arguments)
        got = ours(COLUMNS, "y", **arguments)
        assert got == expected
        assert list(got) == list(expected)
