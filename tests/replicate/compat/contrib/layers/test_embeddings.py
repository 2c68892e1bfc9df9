"""Embeddings of tf.contrib.layers, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import layers

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")
TABLE = np.arange(10, dtype="f4").reshape(5, 2)
IDS = np.array([[1, 4, 1], [0, 2, 0]])


@pytest.mark.parametrize("unique", [False, True])
def test_sequences_are_embedded_by_one_table(unique, evaluate):
    make = v1.constant_initializer(TABLE)
    first = layers.embed_sequence(IDS, 5, 2, unique, initializer=make, scope="words")
    second = layers.embed_sequence(IDS[:1], unique=unique, scope="words", reuse=True)
    assert [each.op.name for each in v1.global_variables()] == ["words/embeddings"]
    assert v1.get_collection(v1.GraphKeys.MODEL_VARIABLES) == v1.trainable_variables()
    np.testing.assert_array_equal(evaluate(first), TABLE[IDS])
    np.testing.assert_array_equal(evaluate(second), TABLE[IDS[:1]])
    assert first.shape.as_list() == [2, 3, 2]


def test_sequences_need_sizes():
    with pytest.raises(ValueError, match="vocab_size=5 and embed_dim=None"):
        layers.embed_sequence(IDS, 5)


def test_bags_are_averaged_without_padding(evaluate):
    make = v1.constant_initializer(TABLE)
    sparse = layers.bow_encoder(IDS, 5, 2, initializer=make)
    dense = layers.bow_encoder(IDS, 5, 2, sparse_lookup=False, initializer=make)
    given = layers.bow_encoder(tf.sparse.from_dense(IDS), 5, 2, initializer=make)
    wanted = [TABLE[IDS[0]].mean(0), TABLE[2]]
    np.testing.assert_allclose(evaluate(sparse), wanted)
    np.testing.assert_allclose(evaluate(given), wanted)
    np.testing.assert_allclose(evaluate(dense), TABLE[IDS].mean(1))
    names = [each.op.name for each in v1.global_variables()]
    assert names == [f"BowEncoder{suffix}/embeddings" for suffix in ("", "_1", "_2")]
    with pytest.raises(TypeError, match="sparse_lookup=False"):
        layers.bow_encoder(tf.sparse.from_dense(IDS), 5, 2, sparse_lookup=False)


def test_unique_lookup_keeps_the_shape(evaluate):
    found = layers.embedding_lookup_unique(tf.constant(TABLE), IDS[None])
    np.testing.assert_array_equal(evaluate(found), TABLE[IDS[None]])


def test_safe_lookup_fills_empty_rows(evaluate):
    numbers = tf.constant([1, 3, 4], tf.int64)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], numbers, [3, 2])
    found = layers.safe_embedding_lookup_sparse([tf.constant(TABLE)], ids)
    np.testing.assert_allclose(evaluate(found), [TABLE[[1, 3]].mean(0), [0, 0], TABLE[4]])
    found = layers.safe_embedding_lookup_sparse(
        [tf.constant(TABLE)], ids, combiner="sum", default_id=2
    )
    np.testing.assert_allclose(evaluate(found), [TABLE[[1, 3]].sum(0), TABLE[2], TABLE[4]])
