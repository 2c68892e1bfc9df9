import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg import vectors

v1 = tf.compat.v1


@pytest.fixture
def table(graph):
    return v1.get_variable("table", [4, 2], tf.float64)


def slices(rows, indices, dtype=tf.int64):
    return tf.IndexedSlices(tf.constant(rows, tf.float64), tf.constant(indices, dtype))


REPEATED = ([[1, 2], [3, 4], [5, 6]], [3, 1, 3])
SUMMED = np.array([[0, 0], [3, 4], [0, 0], [6, 8]], float)


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


@pytest.mark.parametrize("condition", [True, False])
def test_one_of_two_parts(table, session, condition):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    (doubled,) = vectors.scale(tf.constant(2.0), [sparse])
    expected = SUMMED if condition else 2 * SUMMED
    for first, is_sparse in ((sparse, True), (vectors.as_dense(sparse), False)):
        chosen = vectors.choose(tf.constant(condition), first, doubled)
        assert isinstance(chosen, tf.IndexedSlices) is is_sparse
        np.testing.assert_array_equal(session.run(vectors.as_dense(chosen)), expected)


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


@pytest.mark.parametrize("first", ["sparse", "dense"])
@pytest.mark.parametrize("second", ["sparse", "dense"])
def test_inner_product(table, session, first, second):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    forms = {"sparse": sparse, "dense": vectors.as_dense(sparse)}
    other = tf.constant([2.0, 3.0])
    product = vectors.inner_product([forms[first], other], [forms[second], other], tf.float64)
    assert session.run(product) == np.sum(SUMMED**2) + 13


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_inner_products_with_one_vector(table, session, form):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    y = [sparse if form == "sparse" else vectors.as_dense(sparse), tf.constant([2.0, 3.0])]
    table_part = np.arange(8.0).reshape(4, 2)
    both = [vectors.joined([tf.constant(k * table_part), y[1]], tf.float64) for k in (1, -2)]
    found = session.run(vectors.inner_products(both, y, tf.float64))
    once = np.sum(table_part * SUMMED)
    assert found == [once + 13, -2 * once + 13]


def test_joined_and_parted(graph, session):
    parts = [tf.constant(2.0), tf.constant([[1.0, 3.0]], tf.float64), tf.zeros([0, 4], tf.float16)]
    vector = vectors.joined(parts, tf.float64)
    again = vectors.parted(2 * vector.whole, parts)
    assert [x.dtype for x in again] == [x.dtype for x in parts]
    whole, *found = session.run([vector.whole, *again])
    assert whole.tolist() == [2, 1, 3]
    for value, part in zip(found, session.run(vector.parts), strict=True):
        np.testing.assert_array_equal(value, part + part, strict=True)


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


def test_squared_norm(table, session):
    sparse = vectors.as_vector(slices(*REPEATED), table, keep_sparse=True)
    dense = tf.constant([[1.0, -2.0]], tf.float32)
    found = vectors.squared_norm([sparse, dense], tf.float64)
    assert found.dtype == tf.float64
    assert session.run(found) == np.sum(SUMMED**2) + 5
