"""tf.contrib.lookup: ids and words of vocabularies."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import lookup

v1 = tf.compat.v1
WORDS = ["the", "cat", "sat"]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return str(path)


def run(build):
    with tf.Graph().as_default(), v1.Session() as session:
        values = build()
        session.run(v1.tables_initializer())
        return session.run(values)


def bucket(word, count):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(tf.strings.to_hash_bucket_fast([word], count))[0]


@pytest.mark.parametrize("of_file", [True, False])
def test_index_tables_know_words_both_ways(vocabulary, of_file):
    def build():
        if of_file:
            make, given = lookup.index_table_from_file, vocabulary
            back = lookup.index_to_string_table_from_file(vocabulary, default_value="?")
        else:
            make, given = lookup.index_table_from_tensor, WORDS
            back = lookup.index_to_string_table_from_tensor(WORDS, default_value="?")
        words = tf.constant([["sat", "dog"], ["the", "cat"]])
        default, buckets = make(given, default_value=7), make(given, num_oov_buckets=5)
        sparse = tf.SparseTensor([[0, 1]], ["dog"], [2, 2])
        ragged = tf.ragged.constant([["dog"], ["sat", "cat"]])
        sizes = default.size(), buckets.size()
        found = [buckets.lookup(each) for each in (words, sparse, ragged)]
        return default.lookup(words), *found, back.lookup(tf.constant([2, 0, 3], tf.int64)), sizes

    default, ids, sparse, ragged, words, sizes = run(build)
    dog = 3 + bucket("dog", 5)
    assert (default.tolist(), default.dtype) == ([[2, 7], [0, 1]], np.int64)
    assert ids.tolist() == [[2, dog], [0, 1]]
    assert (sparse.values.tolist(), sparse.indices.tolist()) == ([dog], [[0, 1]])
    assert ragged.to_list() == [[dog], [2, 1]]
    assert words.tolist() == [b"sat", b"the", b"?"]
    assert sizes == (3, 8)


@pytest.mark.parametrize("buckets", [0, 2])
def test_index_table_of_integers(tmp_path, buckets):
    path = tmp_path / "numbers.txt"
    path.write_text("42\n-7\n")
    keys = np.array([-7, 42, 5], "i4")

    def build():
        table = lookup.index_table_from_file(str(path), buckets, key_dtype=tf.int32)
        other = lookup.index_table_from_tensor([42, -7], buckets, dtype=tf.int32)
        return table.lookup(tf.constant(keys)), other.lookup(tf.constant(keys))

    unknown = 2 + bucket("5", 2) if buckets else -1
    for ids in run(build):
        assert ids.tolist() == [1, 0, unknown]


def test_columns_hashes_and_old_functions(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("10 the\n20 cat\n30 sat\n")

    def build():
        dog, sat, cats = (tf.constant(each.split()) for each in ("dog", "sat", "the cat sat"))
        columns = lookup.index_table_from_file(
            str(path), vocab_size=2, key_column_index=1, value_column_index=0, delimiter=" "
        )
        spec = lookup.StrongHashSpec([1, 2])
        hashed = lookup.index_table_from_tensor(WORDS, 50, hasher_spec=spec)
        return (
            columns.lookup(cats),
            hashed.lookup(dog) - 3 - tf.strings.to_hash_bucket_strong(dog, 50, [1, 2]),
            lookup.index_to_string(tf.constant([1, 9], tf.int64), WORDS),
            lookup.string_to_index(tf.constant(["cat", "dog"]), WORDS),
            lookup.string_to_index_table_from_tensor(WORDS).lookup(sat),
        )

    found = [each.tolist() for each in run(build)]
    assert found == [[10, 20, -1], [0], [b"cat", b"UNK"], [1, -1], [2]]
    with pytest.raises(ValueError, match=r"two integers, got \[1\]"):
        lookup.StrongHashSpec([1])


def test_hash_table_has_its_old_arguments_and_init(graph):
    initializer = v1.lookup.KeyValueTensorInitializer(["a", "b"], [1.5, 2.5])
    table = lookup.HashTable(initializer, -1.0, "shared", "name")
    values = table.lookup(tf.constant(["b", "c"]))
    assert table.initializer in v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)
    with v1.Session() as session:
        session.run(table.init)
        assert session.run(values).tolist() == [2.5, -1.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lookup.index_table_from_file, ValueError, "vocabulary_file=None"),
        (lambda: lookup.index_table_from_file("a", vocab_size=0), ValueError, "vocab_size=0"),
        (lambda: lookup.index_table_from_file("a", -1), ValueError, "num_oov_buckets=-1"),
        (lambda: lookup.index_table_from_file("a", key_dtype=tf.float32), TypeError, "float32"),
        (lambda: lookup.index_table_from_tensor(None), ValueError, "mapping=None"),
        (lambda: lookup.index_table_from_tensor([1, 2]), TypeError, "int32 with dtype=string"),
        (lambda: lookup.index_table_from_tensor(["a"], 1).lookup(tf.constant([1])), TypeError,
         "keys of type string, got int32"),
    ],
)  # fmt: skip
def test_messages(call, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call()
