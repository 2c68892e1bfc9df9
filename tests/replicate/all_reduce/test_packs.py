"""Packs of gradients: their order, their sizes, and the way back."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.all_reduce.packs import packs_of, sent_in_packs

v1 = tf.compat.v1


def tensors():
    sizes, kinds = [3, 4, 2, 5], [tf.float32, tf.float32, tf.float64, tf.float32]
    return [tf.ones([size], kind) * size for size, kind in zip(sizes, kinds, strict=True)]


@pytest.mark.parametrize(
    ("pack_bytes", "places"),
    [(None, [(3,), (2,), (1,), (0,)]), (36, [(3, 1), (2,), (0,)]), (1000, [(3, 1, 0), (2,)])],
)
def test_the_last_tensors_are_sent_first(pack_bytes, places):
    with tf.Graph().as_default():
        assert [pack.places for pack in packs_of(tensors(), pack_bytes)] == places


def test_packed_tensors_come_back_in_their_order():
    with tf.Graph().as_default(), v1.Session() as session:
        given = [tf.reshape(tf.range(6.0), [2, 3]), tf.constant(7.0), tf.zeros([0, 2])]
        found = session.run(sent_in_packs(given, 1000, lambda pack: 2 * pack))
    np.testing.assert_array_equal(found[0], 2 * np.arange(6).reshape(2, 3))
    assert found[1] == 14
    assert found[2].shape == (0, 2)


def test_packs_are_changed_on_the_device_of_their_tensors():
    """Packs that go from GPU to GPU must not cross the CPU."""
    sent = []

    def double(pack):
        sent.append(2 * pack)
        return sent[-1]

    with tf.Graph().as_default():
        with v1.device("/device:GPU:1"):
            given = [tf.ones([3]), tf.ones([2, 2])]
        sent += sent_in_packs(given, 1000, double)
    assert {each.device for each in sent} == {"/device:GPU:1"}
