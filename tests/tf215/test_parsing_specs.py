"""Parsing specs are those of tf.estimator, and the same arguments are refused."""

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


@pytest.mark.parametrize(
    "arguments",
    [
        {"label_key": "age"},
        {"label_key": "y", "weight_column": "city"},
        {"label_key": "y", "weight_column": "y"},
        {"label_key": "y", "weight_column": 1},
    ],
)
@pytest.mark.parametrize("module", [parsing, tf.estimator], ids=["ours", "stock"])
def test_same_arguments_are_refused(module, arguments):
    with pytest.raises(ValueError, match=r"label|weight_column"):
        module.classifier_parse_example_spec(COLUMNS, **arguments)


def test_regressor_of_two_dimensions_is_the_stock_one():
    arguments = (COLUMNS, "y", tf.float64, [1.0, 2.0], 2, "w")
    assert parsing.regressor_parse_example_spec(
        *arguments
    ) == tf.estimator.regressor_parse_example_spec(*arguments)
