"""Feature columns with the names and arguments of tf.contrib.layers.

Each function returns a column of `tf.feature_column`, so that `tf.estimator` and
`tf.feature_column.input_layer` take it. The combiner of a sparse column is that of linear models,
which sum.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_columns = v1.feature_column

SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY = 0xDECAFCAFFE
"""Key of the hash of `crossed_column`."""


def real_valued_column(
    column_name: str,
    dimension: int | None = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Callable[[Any], Any] | None = None,
) -> Any:
    """Makes a column of numbers.

    Args:
      column_name: Key of the feature.
      dimension: Numbers of each example.
      default_value: Number, or a list of `dimension` numbers, for examples without the feature.
      dtype: Type of the numbers.
      normalizer: Function of the feature's Tensor [batch, dimension], or None.

    Raises:
      ValueError: The dimension is None, as for numbers that vary from example to example.
    """
    if dimension is None:
        raise ValueError(
            f"real_valued_column({column_name!r}) got dimension=None: each example must have the "
            "same number of values, which the dimension tells."
        )
    return _columns.numeric_column(column_name, dimension, default_value, dtype, normalizer)


def sparse_column_with_hash_bucket(
    column_name: str,
    hash_bucket_size: int,
    combiner: str = "sum",
    dtype: Any = tf.string,
    hash_keys: Any = None,
) -> Any:
    """Makes a column of categories that are hashed.

    Args:
      column_name: Key of the feature.
      hash_bucket_size: Number of buckets.
      combiner: "sum".
      dtype: tf.string or an integer type.
      hash_keys: None. A list was for several hashes.

    Raises:
      ValueError: Another combiner or hash_keys are given.
    """
    _check_combiner("sparse_column_with_hash_bucket", combiner)
    if hash_keys is not None:
        raise ValueError(
            f"sparse_column_with_hash_bucket({column_name!r}) got hash_keys={hash_keys!r}: columns "
            "of tf.feature_column have one hash. Leave hash_keys out."
        )
    return _columns.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """Makes a column of categories that are numbers from 0 to bucket_size − 1.

    Args:
      column_name: Key of the feature.
      bucket_size: Number of categories.
      combiner: "sum".
      dtype: An integer type, that of the feature when it is parsed as int64.

    Raises:
      ValueError: Another combiner is given, or the type is no integer one.
    """
    _check_combiner("sparse_column_with_integerized_feature", combiner)
    if not tf.as_dtype(dtype).is_integer:
        raise ValueError(
            f"sparse_column_with_integerized_feature({column_name!r}) got dtype={dtype!r}: it is "
            "an integer type."
        )
    return _columns.categorical_column_with_identity(column_name, bucket_size)


def sparse_column_with_keys(
    column_name: str,
    keys: Sequence[Any],
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Makes a column of categories that are listed.

    Args:
      column_name: Key of the feature.
      keys: The categories.
      default_value: Number of values that are not listed; -1 leaves them out.
      combiner: "sum".
      dtype: tf.string or an integer type.

    Raises:
      ValueError: Another combiner is given.
    """
    _check_combiner("sparse_column_with_keys", combiner)
    return _columns.categorical_column_with_vocabulary_list(
        column_name, keys, dtype=dtype, default_value=default_value
    )


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Makes a column of categories that are the lines of a file.

    Args:
      column_name: Key of the feature.
      vocabulary_file: Path of the file.
      num_oov_buckets: Buckets for values that are not in the file.
      vocab_size: Number of lines that count.
      default_value: Number of values that are not in the file, if there are no buckets for them.
      combiner: "sum".
      dtype: tf.string or an integer type.

    Raises:
      ValueError: Another combiner is given, or vocab_size is not.
    """
    _check_combiner("sparse_column_with_vocabulary_file", combiner)
    if vocab_size is None:
        raise ValueError(
            f"sparse_column_with_vocabulary_file({column_name!r}) needs vocab_size, the number of "
            f"lines of {vocabulary_file}."
        )
    return _columns.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets,
        None if num_oov_buckets else default_value,
        dtype,
    )


def weighted_sparse_column(
    sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32
) -> Any:
    """Makes a column of categories with weights."""
    return _columns.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def one_hot_column(sparse_id_column: Any) -> Any:
    """Makes a dense column that counts the categories of each example."""
    return _columns.indicator_column(sparse_id_column)


def bucketized_column(source_column: Any, boundaries: Iterable[float]) -> Any:
    """Makes a column of the bucket that a number lies in.

    Args:
      source_column: Column of one number.
      boundaries: Rising limits; n of them make n + 1 buckets, each with its lower limit.
    """
    return _columns.bucketized_column(source_column, sorted(boundaries))


def crossed_column(
    columns: Iterable[Any],  # The name that old programs use.
    hash_bucket_size: int,
    combiner: str = "sum",
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    hash_key: int | None = None,
) -> Any:
    """Makes a column of the combinations of categories, hashed.

    Args:
      columns: Two or more columns of categories.
      hash_bucket_size: Number of buckets.
      combiner: "sum".
      ckpt_to_load_from: None. It was a checkpoint to take weights from.
      tensor_name_in_ckpt: None.
      hash_key: Key of the hash, such as `SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY`.

    Raises:
      ValueError: Another combiner or a checkpoint is given.
    """
    _check_combiner("crossed_column", combiner)
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise ValueError(
            "crossed_column got ckpt_to_load_from or tensor_name_in_ckpt: start from a checkpoint "
            "with tf.train.init_from_checkpoint, or with warm_start_from of the estimator."
        )
    keys = [_key_to_cross(column) for column in columns]
    return _columns.crossed_column(keys, hash_bucket_size, hash_key)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Makes a dense column of embedded categories.

    Args:
      sparse_id_column: Column of the categories.
      dimension: Length of an embedding.
      combiner: "mean", "sum" or "sqrtn" of the embeddings of an example.
      initializer: Initializer of the table; None draws from a truncated normal distribution with
        the deviation 1/√(number of categories).
      ckpt_to_load_from: Checkpoint to start from, or None.
      tensor_name_in_ckpt: Name of the table there.
      max_norm: Greatest norm of an embedding, or None.
      trainable: True if the table is trained.
    """
    return _columns.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer or _embedding_initializer(sparse_id_column),
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def shared_embedding_columns(
    sparse_id_columns: Sequence[Any],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[Any]:
    """Makes dense columns that share one table of embeddings.

    The columns have the same categories. `shared_embedding_name` names the table's scope; the other
    arguments are those of `embedding_column`.

    Returns:
      One column for each of `sparse_id_columns`, in their order.

    Raises:
      ValueError: There is no column.
    """
    if not sparse_id_columns:
        raise ValueError("shared_embedding_columns got no columns: give one at least.")
    return _columns.shared_embedding_columns(
        sparse_id_columns,
        dimension,
        combiner,
        initializer or _embedding_initializer(sparse_id_columns[0]),
        shared_embedding_name,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def _embedding_initializer(column: Any) -> Any:
    return v1.truncated_normal_initializer(0.0, 1.0 / math.sqrt(column.num_buckets))


def _key_to_cross(column: Any) -> Any:
    """Returns what tf.feature_column crosses: the feature itself in place of its hash."""
    is_hashed = type(column).__name__ == "HashedCategoricalColumn"
    return column.key if is_hashed else column


def _check_combiner(function: str, combiner: str) -> None:
    if combiner != "sum":
        raise ValueError(
            f"{function} got combiner={combiner!r}: linear models of tf.feature_column combine by "
            "'sum'. The combiner of an embedding is an argument of embedding_column."
        )
