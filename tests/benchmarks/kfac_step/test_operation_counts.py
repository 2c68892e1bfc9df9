import numpy as np
import pytest
import tensorflow as tf

from benchmarks.kfac_step import operation_counts

v1 = tf.compat.v1


def operations_of(fetches, feeds):
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with v1.Session() as session:
        session.run(fetches, feeds, options=options, run_metadata=metadata)
    return operation_counts.executed_operations(metadata)


def test_counts_matrix_products(graph):
    x, y = (v1.placeholder(tf.float32, shape) for shape in ([3, 4], [3, 5]))
    batch = tf.stack([x, 2 * x])
    products = [tf.matmul(x, y, transpose_a=True), tf.matmul(batch, batch, transpose_b=True)]
    found = operations_of(products, {x: np.ones([3, 4]), y: np.ones([3, 5])})
    assert found == 2 * 4 * 3 * 5 + 2 * 2 * 3 * 4 * 3


def test_counts_convolution_and_its_gradients(graph):
    x, w = (v1.placeholder(tf.float32, shape) for shape in ([2, 6, 7, 3], [3, 3, 3, 4]))
    outputs = tf.nn.conv2d(x, w, 1, "SAME")
    gradients = v1.gradients(tf.reduce_sum(outputs**2), [x, w])
    found = operations_of(gradients, {x: np.ones([2, 6, 7, 3]), w: np.ones([3, 3, 3, 4])})
    assert found == 3 * 2 * (2 * 6 * 7 * 4) * (3 * 3 * 3)


def test_ignores_ops_that_do_not_run(graph):
    x = v1.placeholder(tf.float32, [3, 3])
    either = tf.cond(x[0, 0] > 0, lambda: tf.matmul(x, x), lambda: x)
    assert operations_of(either, {x: np.zeros([3, 3])}) == 0
    assert operations_of(either, {x: np.ones([3, 3])}) == 54


def test_textbook_operations_of_one_layer():
    counts = operation_counts.textbook_operations(
        [operation_counts.LayerSize(3, 2, locations=4)], batch_size=5, invert_every=10
    )
    assert counts == {
        "forward": 240,
        "backward": 480,
        "second backward": 240,
        "covariances": 520,
        "preconditioning": 60,
        "inverses": pytest.approx(3.5),
    }
    assert operation_counts.momentum_operations(counts) == 720
