"""tf.contrib.lookup: tables of a vocabulary, on those of tf.lookup.

An initializer that is not here under its old name is the one of tf.lookup.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1

__all__ = [
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]
_LINE_NUMBER = tf.lookup.TextFileIndex.LINE_NUMBER
_WHOLE_LINE = tf.lookup.TextFileIndex.WHOLE_LINE


@dataclasses.dataclass(frozen=True)
class HasherSpec:
    """A function that puts words into buckets.

    Attributes:
      hasher: "fasthash" or "stronghash".
      key: Two integers, the key of "stronghash".
    """

    hasher: str
    key: Sequence[int] | None = None

    def bucket(self, words: Tensor, count: int) -> Tensor:
        """Returns the buckets of words, int64 in [0, count)."""
        if self.key is None:
            return tf.strings.to_hash_bucket_fast(words, count)
        return tf.strings.to_hash_bucket_strong(words, count, list(self.key))


FastHashSpec = HasherSpec("fasthash")


def StrongHashSpec(key: Sequence[int]) -> HasherSpec:  # noqa: N802  # It was a class.
    """Makes the hash function that no one can predict without its key.

    Raises:
      ValueError: There are not two.
    """
    if len(key) != 2:
        raise ValueError(f"StrongHashSpec takes a key of two integers, got {key!r}.")
    return HasherSpec("stronghash", tuple(key))


class HashTable(v1.lookup.StaticHashTable):
    """A `tf.lookup.StaticHashTable`, with the arguments of tf.contrib.lookup in their order."""

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        """Makes the table."""
        super().__init__(initializer, default_value, name=name or shared_name)

    @property
    def init(self) -> Any:
        """Operation that fills the table; `tf.tables_initializer()` runs it, too."""
        return self.initializer


class IdTableWithHashBuckets:
    """A table whose unknown keys have the ids after those of the known ones."""

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        """Keeps the table.

        Args:
          table: Table with int64 values and the default value −1; None for an empty one.
          num_oov_buckets: Number of ids for unknown keys.
          hasher_spec: Chooses among them.
          name: Name of the operations.
          key_dtype: Type of the keys, that of `table` if None: strings or integers.
        """
        self.name = name or "id_table"
        self.key_dtype = tf.as_dtype(key_dtype or (table.key_dtype if table else tf.string))
        self.value_dtype = tf.int64
        self.default_value = -1
        self._table = table
        self._buckets = num_oov_buckets
        self._hasher = hasher_spec

    @property
    def initializer(self) -> Any:
        """Operation that fills the table."""
        return self._table.initializer if self._table else tf.no_op()

    @property
    def init(self) -> Any:
        """Operation that fills the table."""
        return self.initializer

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of ids, those of unknown keys among them, int64."""
        return tf.add(self._known(), self._buckets, name)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Returns the ids of keys.

        Args:
          keys: Tensor, SparseTensor or RaggedTensor.
          name: Name of the operations.

        Returns:
          int64 ids in the shape of the keys, a SparseTensor for a SparseTensor.

        Raises:
          TypeError: The keys have another type than the table.
        """
        with tf.name_scope(name or self.name):
            if isinstance(keys, tf.SparseTensor | v1.SparseTensorValue):
                ids = self._ids(tf.convert_to_tensor(keys.values))
                return tf.SparseTensor(keys.indices, ids, keys.dense_shape)
            if isinstance(keys, tf.RaggedTensor):
                return keys.with_flat_values(self._ids(keys.flat_values))
            return self._ids(tf.convert_to_tensor(keys))

    def _ids(self, keys: Tensor) -> Tensor:
        if keys.dtype != self.key_dtype:
            raise TypeError(
                f"The table {self.name!r} has keys of type {self.key_dtype.name}, got "
                f"{keys.dtype.name}."
            )
        words = keys if keys.dtype == tf.string else tf.strings.as_string(keys)
        ids = self._hasher.bucket(words, self._buckets) + self._known()
        if self._table is None:
            return ids
        of_table = self._table.key_dtype
        known = self._table.lookup(words if of_table == tf.string else tf.cast(keys, of_table))
        return tf.where(tf.equal(known, self._table.default_value), ids, known)

    def _known(self) -> Tensor:
        return self._table.size() if self._table else tf.constant(0, tf.int64)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = tf.string,
    name: str | None = None,
    key_column_index: int = _WHOLE_LINE,
    value_column_index: int = _LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """Makes the table of the ids of a file's words.

    Args:
      vocabulary_file: Path of a file with one word a line.
      num_oov_buckets: Number of ids for unknown words; 0 to give them all `default_value`.
      vocab_size: Number of lines to use, None for all.
      default_value: Id of unknown words, if there are no buckets.
      hasher_spec: Chooses among the ids of unknown words.
      key_dtype: Type of the words: string or an integer type.
      name: Name of the table.
      key_column_index: Column of the words, or TextFileIndex.WHOLE_LINE.
      value_column_index: Column of the ids, or TextFileIndex.LINE_NUMBER.
      delimiter: Ends a column.

    Returns:
      A table whose `lookup` gives int64 ids. `tf.tables_initializer()` fills it.

    Raises:
      ValueError: There is no file, or a number is out of range.
      TypeError: The type is neither string nor an integer type.
    """
    path = _checked_file("index_table_from_file", vocabulary_file, vocab_size)
    key_dtype = _checked_settings("index_table_from_file", num_oov_buckets, key_dtype)
    initializer = TextFileIdTableInitializer(
        path,
        key_column_index,
        value_column_index,
        vocab_size,
        delimiter,
        key_dtype=tf.string if num_oov_buckets or key_dtype == tf.string else tf.int64,
    )
    return _id_table(initializer, num_oov_buckets, default_value, hasher_spec, name, key_dtype)


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = tf.string,
    name: str | None = None,
) -> Any:
    """Makes the table of the ids of words.

    Args:
      mapping: The words, a 1-D tensor or list. The id of a word is its position.
      num_oov_buckets: As for `index_table_from_file`, like the rest.
      default_value: Id of unknown words, if there are no buckets.
      hasher_spec: Chooses among the ids of unknown words.
      dtype: Type of the words.
      name: Name of the table.

    Raises:
      ValueError: There are no words, or a number is out of range.
      TypeError: The type is neither string nor an integer type, or not that of the words.
    """
    dtype = _checked_settings("index_table_from_tensor", num_oov_buckets, dtype)
    keys = _checked_mapping("index_table_from_tensor", mapping)
    if keys.dtype.is_integer != dtype.is_integer:
        raise TypeError(
            f"index_table_from_tensor got words of type {keys.dtype.name} with dtype={dtype.name}."
        )
    keys = tf.cast(keys, tf.int64) if dtype.is_integer else keys
    initializer = tf.lookup.KeyValueTensorInitializer(
        keys, tf.range(tf.size(keys, out_type=tf.int64))
    )
    return _id_table(initializer, num_oov_buckets, default_value, hasher_spec, name, dtype)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = _LINE_NUMBER,
    value_column_index: int = _WHOLE_LINE,
    delimiter: str = "\t",
) -> HashTable:
    """Makes the table of the words of ids.

    Args:
      vocabulary_file: Path of a file with one word a line.
      vocab_size: Number of lines to use, None for all.
      default_value: Word of all other ids.
      name: Name of the table.
      key_column_index: Column of the ids, or TextFileIndex.LINE_NUMBER.
      value_column_index: Column of the words, or TextFileIndex.WHOLE_LINE.
      delimiter: Ends a column.

    Returns:
      A table whose `lookup` takes int64 ids.

    Raises:
      ValueError: There is no file, or a number is out of range.
    """
    path = _checked_file("index_to_string_table_from_file", vocabulary_file, vocab_size)
    initializer = TextFileStringTableInitializer(
        path, key_column_index, value_column_index, vocab_size, delimiter
    )
    return HashTable(initializer, default_value, name=name)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> HashTable:
    """Makes the table of the words of ids.

    Args:
      mapping: The words, a 1-D tensor or list. The id of a word is its position.
      default_value: Word of all other ids.
      name: Name of the table.

    Returns:
      A table whose `lookup` takes int64 ids.

    Raises:
      ValueError: There are no words.
    """
    values = _checked_mapping("index_to_string_table_from_tensor", mapping)
    keys = tf.range(tf.size(values, out_type=tf.int64))
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values, tf.int64, tf.string)
    return HashTable(initializer, default_value, name=name)


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Makes the table that `index_table_from_file` makes, the later name of this function."""
    return index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Makes the table that `index_table_from_tensor` makes, the later name of this function."""
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def index_to_string(
    tensor: Tensor, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """Returns the words of ids; arguments as for `index_to_string_table_from_tensor`."""
    return index_to_string_table_from_tensor(mapping, default_value).lookup(tensor, name)


def string_to_index(
    tensor: Tensor, mapping: Any, default_value: int = -1, name: str | None = None
) -> Any:
    """Returns the ids of words; arguments as for `index_table_from_tensor`."""
    return index_table_from_tensor(mapping, default_value=default_value).lookup(tensor, name)


def TextFileIdTableInitializer(  # noqa: N802  # It was a class.
    filename: Any,
    key_column_index: int = _WHOLE_LINE,
    value_column_index: int = _LINE_NUMBER,
    vocab_size: int | None = None,
    delimiter: str = "\t",
    name: str = "text_file_id_table_init",
    key_dtype: Any = tf.string,
) -> Any:
    """Makes the initializer of a table of ids; arguments as for `index_table_from_file`."""
    return tf.lookup.TextFileInitializer(
        filename,
        key_dtype,
        key_column_index,
        tf.int64,
        value_column_index,
        vocab_size,
        delimiter,
        name,
    )


def TextFileStringTableInitializer(  # noqa: N802  # It was a class.
    filename: Any,
    key_column_index: int = _LINE_NUMBER,
    value_column_index: int = _WHOLE_LINE,
    vocab_size: int | None = None,
    delimiter: str = "\t",
    name: str = "text_file_string_table_init",
) -> Any:
    """Makes the initializer of a table of words; arguments as for the table from a file."""
    return tf.lookup.TextFileInitializer(
        filename,
        tf.int64,
        key_column_index,
        tf.string,
        value_column_index,
        vocab_size,
        delimiter,
        name,
    )


def _id_table(
    initializer: Any,
    buckets: int,
    default_value: int,
    hasher: HasherSpec,
    name: str | None,
    key_dtype: Any,
) -> Any:
    table = HashTable(initializer, -1 if buckets else default_value, name=name)
    if not buckets and table.key_dtype == key_dtype:
        return table
    if not buckets:
        return _CastTable(table, key_dtype)
    return IdTableWithHashBuckets(table, buckets, hasher, name, key_dtype)


class _CastTable:
    """A table of int64 keys that is asked with those of another integer type."""

    def __init__(self, table: HashTable, key_dtype: Any) -> None:
        self.key_dtype = key_dtype
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Returns the ids of keys, a Tensor or SparseTensor."""
        return self._table.lookup(tf.cast(keys, tf.int64), name)


def _checked_file(function: str, path: Any, vocab_size: int | None) -> Any:
    if path is None or (isinstance(path, str) and not path):
        raise ValueError(f"{function} got vocabulary_file={path!r}, but it must be a path.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"{function} got vocab_size={vocab_size}, but it must be at least 1.")
    return path


def _checked_settings(function: str, buckets: int, dtype: Any) -> Any:
    if buckets < 0:
        raise ValueError(f"{function} got num_oov_buckets={buckets}, but it must be at least 0.")
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and not dtype.is_integer:
        raise TypeError(
            f"{function} got keys of type {dtype.name}: they must be strings or integers."
        )
    return dtype


def _checked_mapping(function: str, mapping: Any) -> Tensor:
    if mapping is None:
        raise ValueError(f"{function} got mapping=None, but it must be a list of words.")
    return tf.convert_to_tensor(mapping)
