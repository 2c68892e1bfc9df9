import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.uses import as_uses, count_uses, fold_uses

v1 = tf.compat.v1

VALUES = np.arange(24.0).reshape(3, 4, 2)


def test_all_formats_fold_to_the_same(graph, session):
    formats = [
        list(map(tf.constant, VALUES)),
        tf.constant(VALUES),
        tf.constant(VALUES.reshape(12, 2)),
    ]
    for tensors in formats:
        found = session.run(fold_uses(as_uses(tensors, 1), 1))
        np.testing.assert_array_equal(found, VALUES.reshape(12, 2))


def test_images_of_unknown_size(graph, session):
    images = np.arange(48.0).reshape(2, 3, 2, 2, 2)
    x = v1.placeholder(tf.float64, [None, None, None, None, 2])
    found = session.run(fold_uses(as_uses(x, 3), 3), {x: images})
    np.testing.assert_array_equal(found, images.reshape(6, 2, 2, 2))


def test_more_axes_of_uses(graph, session):
    values = tf.constant(VALUES.reshape(3, 2, 2, 2))
    found = session.run(fold_uses(as_uses(values, 1), 1))
    np.testing.assert_array_equal(found, VALUES.reshape(12, 2))


def test_count(graph):
    assert count_uses([tf.ones([4, 2])] * 3, None, 1, "rnn/w") == 3
    assert count_uses(tf.ones([3, 4, 2]), None, 1, "rnn/w") == 3
    assert count_uses(tf.ones([12, 2]), 3, 1, "rnn/w") == 3


def test_count_in_lists_of_several_uses_each(graph):
    assert count_uses([tf.ones([4, 2]), tf.ones([8, 2])], 3, 1, "rnn/w") == 3
    assert count_uses([tf.ones([2, 4, 2]), tf.ones([8, 2])], 4, 1, "rnn/w") == 4
    ids = [tf.zeros([4], tf.int32), tf.zeros([8], tf.int32)]
    assert count_uses(ids, 3, 1, "embedding") == 3


def test_lists_of_unknown_rank(graph):
    with pytest.raises(ValueError, match=r"its tensors tell 1"):
        count_uses([v1.placeholder(tf.float32, None)], 3, 1, "rnn/w")


@pytest.mark.parametrize(
    ("rows", "num_uses"), [((4, 8), 1), ((4, 8), 4), ((4, 8), 5), ((None, None), 4)]
)
def test_lists_with_another_number_of_uses(graph, rows, num_uses):
    tensors = [v1.placeholder(tf.float32, [n, 2]) for n in rows]
    with pytest.raises(ValueError, match=r"its tensors tell 2.*or lists of such tensors of static"):
        count_uses(tensors, num_uses, 1, "rnn/w")


@pytest.mark.parametrize(
    ("shape", "num_uses"), [([12, 2], None), ([3, 4, 2], 4), ([None, 4, 2], None)]
)
def test_unknown_or_other_number_of_uses(graph, shape, num_uses):
    x = v1.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match=r"layer 'rnn/w': num_uses=.*Give lists with one tensor"):
        count_uses(x, num_uses, 1, "rnn/w")
