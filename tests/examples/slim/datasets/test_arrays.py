"""Small arrays are kept in the graph, large ones outside."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets import arrays
from examples.slim.datasets.dataset import Reading

v1 = tf.compat.v1


def dataset(images, labels):
    return arrays.array_dataset("mine", "train", images, labels, 5, {"image": "", "label": ""})


@pytest.mark.parametrize("is_large", [False, True])
def test_small_arrays_are_in_the_graph_and_large_ones_are_not(write, monkeypatch, is_large):
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8, 1)
    monkeypatch.setattr(arrays, "IN_GRAPH_BYTES", 127 if is_large else 128)
    made = dataset(images, np.array([4, 2]))
    assert made.runs_python == is_large
    found, labels = write.read(made, Reading(training=False))
    np.testing.assert_array_equal(found, images)
    assert labels == [4, 2]
    with tf.Graph().as_default() as graph:
        image, label = made.decode(tf.constant(1, tf.int64))
        assert (image.shape, image.dtype, label.dtype) == ((8, 8, 1), tf.uint8, tf.int64)
        assert ("Const" in {op.type for op in graph.get_operations()}) is True
        assert (graph.as_graph_def().ByteSize() > 1000) or is_large
