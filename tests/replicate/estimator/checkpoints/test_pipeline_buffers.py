import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.pipeline_record import (
    large_buffers,
    pipeline_ops,
    sizes_to_feed,
    unseeded_inputs,
)

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def rows():
    return tf.data.Dataset.from_tensor_slices((np.zeros([8, 25], np.float32), np.zeros([8])))


@pytest.mark.parametrize(
    ("dataset_fn", "expected"),
    [
        (lambda: rows().shuffle(3).batch(4), None),
        (lambda: rows().shuffle(4).batch(4), "ShuffleDataset"),
        (lambda: rows().batch(2).prefetch(5), None),
        (lambda: rows().batch(2, drop_remainder=True).prefetch(5), "PrefetchDataset"),
        (lambda: rows().prefetch(tf.data.AUTOTUNE), None),
        (lambda: rows().cache().batch(4), "CacheDataset"),
        (lambda: rows().cache("file").batch(4), None),
    ],
)
def test_large_buffers(dataset_fn, expected):
    large = large_buffers(pipeline_ops(dataset_fn()), 1000)
    assert [op.type for op in large] == ([] if expected is None else [expected])
    assert len(sizes_to_feed(large)) == (expected in ("ShuffleDataset", "PrefetchDataset"))


@pytest.mark.parametrize(
    ("graph_seed", "seed", "count"), [(None, None, 1), (None, 5, 0), (1, None, 0)]
)
def test_unseeded_inputs(graph_seed, seed, count):
    v1.set_random_seed(graph_seed)
    assert len(unseeded_inputs(pipeline_ops(rows().shuffle(3, seed=seed).batch(2)))) == count
