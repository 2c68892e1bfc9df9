"""Helpers on tensors, and vectors made of several tensors."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg import tensor_ops, vectors

v1 = tf.compat.v1
REPEATED = ([[1, 2], [3, 4], [5, 6]], [3, 1, 3])
SUMMED = np.array([[0, 0], [3, 4], [0, 0], [6, 8]], float)


def test_homogeneous_coordinate_waits_for_nothing(graph, session, evaluate):
    images = np.arange(12.0).reshape(2, 3, 2)
    with v1.device("/cpu:1"), tf.control_dependencies([v1.placeholder(tf.float32)]):
        given = tensor_ops.append_homogeneous(tf.identity(tf.constant(images)))
    *_, value = given.op.inputs
    assert value.device == "/device:CPU:0"
    assert not value.op.control_inputs
    assert evaluate(value) == 1
    vectors = session.run([tensor_ops.append_homogeneous(tf.constant(x)) for x in (images, [2.0])])
    np.testing.assert_array_equal(vectors[0], np.concatenate([images, np.ones([2, 3, 1])], 2))
    np.testing.assert_array_equal(vectors[1], [2, 1])


def test_large_products_are_computed_by_halves(graph, session):
    size = 2 * tensor_ops.LARGEST_PRODUCT + 9
    rows = np.random.RandomState(0).randn(tensor_ops.FEWEST_ROWS, size)
    given = v1.placeholder(tf.float64, rows.shape)
    product = tensor_ops.outer_product(given)
    assert product.shape == (size, size)
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    found = session.run(product, {given: rows}, options=options, run_metadata=metadata)
    nodes = [node for each in metadata.step_stats.dev_stats for node in each.node_stats]
    computed = [node.output[0] for node in nodes if "MatMul(" in node.timeline_label]
    shapes = [part.tensor_description.shape for part in computed]
    assert 0.5 * size**2 < sum(tf.TensorShape(s).num_elements() for s in shapes) < 0.8 * size**2
    np.testing.assert_allclose(found, rows.T @ rows, atol=1e-10)
    np.testing.assert_allclose(found, found.T, atol=1e-10)


def test_large_products_of_one_width_share_their_operations(graph, session):
    size = 2 * tensor_ops.LARGEST_PRODUCT
    for rows in (tensor_ops.FEWEST_ROWS, tensor_ops.FEWEST_ROWS + 1):
        product = tensor_ops.outer_product(tf.ones([rows, size]))
        np.testing.assert_array_equal(session.run(product), np.full([size, size], rows))
    assert len(graph.as_graph_def().library.function) == 1


def test_python_numbers_keep_their_digits(graph, evaluate):
    assert evaluate(tensor_ops.as_scalar(0.1, tf.float64)) == 0.1
    assert evaluate(tensor_ops.as_scalar(lambda: 0.1, tf.float64)) == 0.1


def test_add_in_order_does_not_depend_on_other_readers(graph, session):
    parts = [tf.floor(tf.random.uniform([])) + value for value in (1e8, -1e8, 1.0)]
    total = tensor_ops.add_in_order(parts)
    assert [session.run([total, *parts[:kept]])[0] for kept in range(4)] == [1.0] * 4


@pytest.fixture
def table(graph):
    return v1.get_variable("table", [4, 2], tf.float64)


def slices(rows, indices, dtype=tf.int64):
    return tf.IndexedSlices(tf.constant(rows, tf.float64), tf.constant(indices, dtype))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("keep_sparse", [True, False])
def test_repeated_indices_are_added_up(table, session, dtype, keep_sparse):
    vector = vectors.as_vector(slices(*REPEATED, dtype), table, keep_sparse)
    assert isinstance(vector, tf.IndexedSlices) is keep_sparse
    np.testing.assert_array_equal(session.run(vectors.as_dense(vector)), SUMMED)
    assert session.run(tf.shape(vectors.entries(vector)))[0] == (2 if keep_sparse else 4)


def test_gradient_takes_the_shape_of_its_variable(table):
    vector = vectors.as_vector(v1.placeholder(tf.float64), table, keep_sparse=True)
    assert vector.shape.as_list() == [4, 2]


def test_arithmetic_keeps_rows(table, session):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    dense = tf.constant(np.arange(8.0).reshape(4, 2))
    scaled = vectors.scale(tf.constant(2.0), [sparse, dense])
    assert isinstance(scaled[0], tf.IndexedSlices)
    total = vectors.add_scaled(scaled, tf.constant(-1.0), [dense, sparse])
    found = session.run([vectors.as_dense(scaled[0]), *total])
    expected = (2 * SUMMED, 2 * SUMMED - np.arange(8.0).reshape(4, 2))
    np.testing.assert_array_equal(found[:2], expected)
    np.testing.assert_array_equal(found[2], 2 * np.arange(8.0).reshape(4, 2) - SUMMED)


def test_inner_product(table, session):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    other, forms = tf.constant([2.0, 3.0]), (sparse, vectors.as_dense(sparse))
    found = [vectors.squared_norm([sparse, other], tf.float64)]
    for first, second in itertools.product(forms, forms):
        found.append(vectors.inner_product([first, other], [second, other], tf.float64))
    assert {product.dtype for product in found} == {tf.float64}
    assert session.run(found) == [np.sum(SUMMED**2) + 13] * 5


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_inner_products_with_one_vector(table, session, form):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    y = [sparse if form == "sparse" else vectors.as_dense(sparse), tf.constant([2.0, 3.0])]
    table_part = np.arange(8.0).reshape(4, 2)
    both = [vectors.joined([tf.constant(k * table_part), y[1]], tf.float64) for k in (1, -2)]
    found = session.run(vectors.inner_products(both, y, tf.float64))
    once = np.sum(table_part * SUMMED)
    assert found == [once + 13, -2 * once + 13]


def test_parts_stay_on_their_devices(graph):
    parts = []
    for index in range(2):
        with v1.device(f"/device:GPU:{index}"):
            parts.append(v1.placeholder(tf.float32, [2]))
    swapped = parts[::-1]
    scaled = vectors.scale(tf.constant(2.0), parts)
    added = vectors.add_scaled(swapped, tf.constant(2.0), parts)
    for found in (scaled, added):
        assert [each.device for each in found] == [part.device for part in parts]


def test_scalars_are_made_once_for_each_dtype(graph, session):
    given = [tf.constant(np.ones(2, dtype)) for dtype in ("float32", "float32", "float64")]
    calls = []
    scaled = vectors.scale(lambda: calls.append(0) or 0.5, given)
    assert len(calls) == 2
    assert [x.dtype for x in scaled] == [tf.float32, tf.float32, tf.float64]
    assert scaled[0].op.inputs[0] is scaled[1].op.inputs[0]
    np.testing.assert_array_equal(session.run(scaled[:2]), np.full([2, 2], 0.5))


def test_first_column(graph, session):
    matrix = v1.placeholder(tf.float32, [2, 2])
    found = tensor_ops.has_first_column(matrix)
    for column in ([0, 0], [0, 1], [np.nan, 0]):
        assert session.run(found, {matrix: np.stack([column, [1, 1]], axis=1)}) == any(column)
