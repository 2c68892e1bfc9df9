"""Codes of few bits for sums over workers."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.all_reduce.compression import BLOCK, Code, compressed_sum

v1 = tf.compat.v1


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_decoded_values_are_the_nearest_of_their_block(graph, bits):
    """Three blocks in two rows: small values, large ones and zeros."""
    values = np.random.default_rng(0).normal(size=[2, 3, BLOCK]).astype(np.float32)
    values *= np.array([1e-3, 1e4, 0.0], np.float32)[:, None]
    code = Code(bits)
    words = code.encode(tf.constant(values.reshape(2, -1)))
    with v1.Session() as session:
        sent, found = session.run([words, code.decode(words)])
    found = found.reshape(values.shape)
    assert sent.dtype == np.int32
    assert sent.shape == (2, 3 * (BLOCK * bits // 32 + (bits < 16)))
    if bits == 16:
        expected = values.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)
        np.testing.assert_array_equal(found, expected)
        return
    largest = 2 ** (bits - 1) - 1
    scale = np.abs(values).max(axis=2, keepdims=True) / largest
    multiples = np.round(np.divide(found, scale, out=np.zeros_like(found), where=scale > 0))
    np.testing.assert_allclose(found, multiples * scale, rtol=1e-6)
    assert multiples.max() == largest or multiples.min() == -largest
    assert (np.abs(found - values) <= 0.5001 * scale).all()


def test_nothing_is_sent_as_no_words(graph):
    """TensorFlow crashes if it exchanges a Tensor without elements."""

    class Group:
        size, rank = 3, 1

        def exchanged(self, words):
            assert words.shape == (3, BLOCK // 8 + 1)
            return words

        def gathered(self, words):
            assert words.shape == (1, BLOCK // 8 + 1)
            return tf.tile(words, [3, 1])

    found = compressed_sum(tf.zeros([0]), Group(), Code(4))
    with v1.Session() as session:
        assert [each.shape for each in session.run(found)] == [(0,), (0,)]
