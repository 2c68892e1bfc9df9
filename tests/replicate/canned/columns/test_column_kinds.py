"""Lists of columns: their order, and those that a model cannot take."""

import pytest
import tensorflow as tf

from replicate.canned.columns.column_kinds import dense_columns, linear_columns, scope_name
from replicate.errors import ArgumentTypeError

fc = tf.feature_column
X = fc.numeric_column("x")
WORD = fc.categorical_column_with_vocabulary_list("word", ["a", "b"])
STEPS = fc.sequence_categorical_column_with_identity("steps", 3)


def test_columns_are_ordered_by_name():
    columns = [X, fc.indicator_column(WORD), fc.bucketized_column(fc.numeric_column("a"), [0.0])]
    for choose in (dense_columns, linear_columns):
        names = [column.name for column in choose("feature_columns", iter(columns))]
        assert names == ["a_bucketized", "word_indicator", "x"]
    assert linear_columns("feature_columns", [WORD]) == (WORD,)


def test_one_column_is_a_list_of_one():
    assert dense_columns("feature_columns", X) == (X,)


@pytest.mark.parametrize("choose", [dense_columns, linear_columns])
@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        ([], ValueError, "columns must hold at least one feature column"),
        ({"x": X}, ValueError, "columns must be a list of feature columns, got {'x'"),
        (["x"], ArgumentTypeError, "columns must hold feature columns, got 'x'"),
        ([X, X], ValueError, r"different names, got \['x'\] more than once"),
        ([fc.sequence_numeric_column("s")], ValueError, "the sequence column 's' of columns"),
        ([fc.embedding_column(STEPS, 2)], ValueError, "the sequence column 'steps_embedding'"),
    ],
)
def test_unusable_columns_are_refused(choose, columns, kind, text):
    with pytest.raises(kind, match=text):
        choose("columns", columns)


def test_network_refuses_categorical_columns():
    with pytest.raises(ValueError, match=r"categorical column 'word' .*embedding_column or"):
        dense_columns("feature_columns", [X, WORD])
    with pytest.raises(ValueError, match="sequence column 'steps' of feature_columns"):
        dense_columns("feature_columns", [STEPS])


def test_linear_model_takes_sequences_of_ids():
    assert linear_columns("feature_columns", [STEPS]) == (STEPS,)


def test_scope_name_has_no_spaces():
    assert scope_name(fc.numeric_column("hours per week")) == "hours_per_week"
