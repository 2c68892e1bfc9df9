"""Inputs of models from feature columns, with the variables of tf.contrib.layers."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate.compat.contrib.layers.feature_columns import real_valued_column

v1 = tf.compat.v1
_columns = v1.feature_column
_OLD_KINDS = {
    "BucketizedColumn": "_BucketizedColumn",
    "CrossedColumn": "_CrossedColumn",
    "EmbeddingColumn": "_EmbeddingColumn",
    "HashedCategoricalColumn": "_SparseColumnHashed",
    "IdentityCategoricalColumn": "_SparseColumnIntegerized",
    "IndicatorColumn": "_OneHotColumn",
    "NumericColumn": "_RealValuedColumn",
    "SharedEmbeddingColumn": "_EmbeddingColumn",
    "_SharedEmbeddingColumn": "_EmbeddingColumn",
    "VocabularyFileCategoricalColumn": "_SparseColumnVocabulary",
    "VocabularyListCategoricalColumn": "_SparseColumnKeys",
    "WeightedCategoricalColumn": "_WeightedSparseColumn",
}


def input_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Joins dense columns to the input of a network, in the order of TensorFlow 1.15.

    A table of embeddings is `input_from_feature_columns/NAME_embedding/weights`.

    Args:
      columns_to_tensors: Features by their keys.
      feature_columns: Dense columns.
      weight_collections: More collections of the variables.
      trainable: True if the variables are trained.
      scope: Name or scope of the variables.

    Returns:
      Tensor [batch, sum of the columns' lengths].

    Raises:
      ValueError: Two columns are equal.
    """
    ordered = _checked_columns(feature_columns)
    with v1.variable_scope(
        scope,
        "input_from_feature_columns",
        list(columns_to_tensors.values()),
        custom_getter=_renamed("input_layer", {"embedding_weights": "weights"}),
    ):
        parts = [
            _columns.input_layer(
                dict(columns_to_tensors), [column], _collections(weight_collections), trainable
            )
            for column in ordered
        ]
        return tf.concat(parts, axis=1)


def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    num_outputs: int,
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[Any, dict[Any, list[Any]], Any]:
    """Makes a linear model of columns, whose weights start at zero.

    Its variables are `weighted_sum_from_feature_columns/NAME/weights`, or `…/weight` for a column
    of numbers, and `…/bias_weight`.

    Args:
      columns_to_tensors: Features by their keys.
      feature_columns: Columns of numbers or categories.
      num_outputs: Number of outputs.
      weight_collections: More collections of the variables.
      trainable: True if the variables are trained.
      scope: Name or scope of the variables.

    Returns:
      Tensor [batch, num_outputs]; the variables by their columns; and the bias [num_outputs].

    Raises:
      ValueError: Two columns are equal.
    """
    ordered = _checked_columns(feature_columns)
    numbers = {column.name for column in ordered if _old_kind(column) == "_RealValuedColumn"}
    made: dict[str, Any] = {}

    def getter(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        *scopes, last = [each for each in name.split("/") if not _is_scope(each, "linear_model")]
        if last == "bias_weights" or (last == "weights" and scopes[-1] in numbers):
            last = last.removesuffix("s")
        made[scopes[-1]] = getter("/".join([*scopes, last]), *args, **kwargs)
        return made[scopes[-1]]

    with v1.variable_scope(
        scope,
        "weighted_sum_from_feature_columns",
        list(columns_to_tensors.values()),
        custom_getter=getter,
    ) as whole:
        outputs = _columns.linear_model(
            dict(columns_to_tensors),
            ordered,
            num_outputs,
            weight_collections=_collections(weight_collections),
            trainable=trainable,
        )
    variables = {column: [made[column.name]] for column in ordered}
    return outputs, variables, made[whole.name.rpartition("/")[2]]


def create_feature_spec_for_parsing(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """Returns what `tf.parse_example` needs to read the features of columns."""
    return _columns.make_parse_example_spec(list(feature_columns))


def parse_feature_columns_from_examples(
    serialized: Any,
    feature_columns: Iterable[Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Reads the features of columns, by their keys, from tf.train.Examples, strings [batch]."""
    specification = create_feature_spec_for_parsing(feature_columns)
    return v1.parse_example(serialized, specification, name, example_names)


def infer_real_valued_columns(features: Any) -> list[Any]:
    """Makes a column of numbers for each feature by its key, which is "" for a single one.

    Raises:
      ValueError: The dimension of a feature is not known.
    """
    named = features if isinstance(features, Mapping) else {"": features}
    return [
        real_valued_column(name, _dimension(name, tensor), dtype=tensor.dtype)
        for name, tensor in sorted(named.items())
    ]


def _dimension(name: str, tensor: Any) -> int:
    known = tensor.shape[1:].num_elements() if tensor.shape.rank else None
    if known is None:
        raise ValueError(
            f"infer_real_valued_columns needs the shape of the feature {name!r}: it is "
            f"{tensor.shape}."
        )
    return int(known)


def check_feature_columns(feature_columns: Iterable[Any]) -> None:
    """Checks that no two columns are equal.

    Raises:
      ValueError: Two are.
    """
    _checked_columns(feature_columns)


def _checked_columns(feature_columns: Iterable[Any]) -> list[Any]:
    ordered = sorted(feature_columns, key=_old_key)
    names = [column.name for column in ordered]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"Feature columns must differ, but there are two of {sorted(twice)}.")
    return ordered


def _old_key(column: Any) -> str:
    """Returns a text that sorts columns as TensorFlow 1.15 did: by kind, then by content."""
    source = getattr(column, "categorical_column", None) or getattr(column, "source_column", None)
    return f"{_old_kind(column)}({column.name if source is None else _old_key(source)}"


def _old_kind(column: Any) -> str:
    return _OLD_KINDS.get(type(column).__name__, type(column).__name__)


def _collections(names: Iterable[str] | None) -> list[str]:
    return [v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES, *(names or ())]


def _is_scope(part: str, name: str) -> bool:
    return part.rstrip("_0123456789") == name


def _renamed(left_out: str, names: Mapping[str, str]) -> Any:
    """Makes a custom getter that leaves a scope out of names, and renames their last parts."""

    def getter(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        *scopes, last = name.split("/")
        kept = [each for each in scopes if not _is_scope(each, left_out)]
        return getter("/".join([*kept, names.get(last, last)]), *args, **kwargs)

    return getter
