"""A batch of its own for each tower."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch.one_each import is_group, one_batch_each, shards_of_group

v1 = tf.compat.v1


def batches(rows, size):
    data = tf.data.Dataset.from_tensor_slices(({"a": np.arange(rows)}, np.arange(rows) * 2))
    return data.batch(size)


def groups(make, towers):
    """Returns for each step the features and labels of each tower."""
    with tf.Graph().as_default():
        grouped = one_batch_each(make(), towers)
        iterator = v1.data.make_initializable_iterator(grouped)
        element = iterator.get_next()
        features, labels = element if isinstance(element, tuple) else (element, None)
        assert is_group(features)
        shards = shards_of_group(features, labels, towers)
        assert [shard.weight for shard in shards] == [1.0 / towers] * towers
        fetched = [shard.features if shard.labels is None else shard[:2] for shard in shards]
        found = []
        with v1.Session() as session:
            session.run(iterator.initializer)
            while True:
                try:
                    found.append(session.run(fetched))
                except tf.errors.OutOfRangeError:
                    return found


def test_each_tower_gets_the_next_batch_and_too_few_at_the_end_are_left_out():
    found = groups(lambda: batches(9, 2), 2)
    assert [[list(features["a"]) for features, _ in step] for step in found] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]
    assert list(found[1][1][1]) == [12, 14]


def test_batches_of_a_group_may_differ_in_shape():
    def make():
        return batches(7, 3).map(lambda x, y: tf.ones([tf.shape(y, tf.int64)[0], tf.reduce_max(y)]))

    assert [[part.shape for part in step] for step in groups(make, 3)] == [
        [(3, 4), (3, 10), (1, 12)]
    ]


def test_sparse_and_ragged_tensors_are_grouped():
    def make():
        return batches(4, 2).map(
            lambda x, y: {"sparse": tf.sparse.from_dense(y), "ragged": tf.ragged.range(y)}
        )

    [step] = groups(make, 2)
    assert [list(part["sparse"].values) for part in step] == [[2], [4, 6]]
    assert [part["ragged"].to_list() for part in step] == [[[], [0, 1]], [[*range(4)], [*range(6)]]]


def test_other_features_are_no_group(graph):
    assert not is_group({"a": 1})
    assert not is_group(tf.zeros([2]))
    data = tf.data.Dataset.from_tensors((1, 2, 3))
    with pytest.raises(ValueError, match=r"to give each of 2 towers a batch.*batches have 3 parts"):
        one_batch_each(data, 2)
    with pytest.raises(TypeError, match="Cannot give each of 2 towers a batch of DatasetSpec"):
        one_batch_each(tf.data.Dataset.range(4).window(2), 2)
