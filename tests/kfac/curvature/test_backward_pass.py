import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.backward_pass import (
    BackwardPass,
    block_gradients,
    checked_batch_size,
    propagate_back,
)
from kfac.curvature.estimation_modes import MODES
from kfac.state import make_variable

v1 = tf.compat.v1

VALUES = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def tensors(graph):
    """A tensor that both losses depend on, and one for each of them."""
    common = tf.constant(VALUES, name="common")
    return common, tf.identity(common, name="left"), tf.identity(3 * common, name="right")


@pytest.fixture
def collection(tensors):
    collection = kfac.LayerCollection()
    for tensor, name in zip(tensors[1:], ("left", "right"), strict=True):
        collection.register_squared_error_loss(tensor, targets=tf.zeros([2, 2]), name=name)
    return collection


def propagate(collection, tensors, mode="exact", variables=()):
    step = make_variable("sample_step", [], tf.int64, initial=6)
    v1.get_default_session().run(step.initializer)
    return propagate_back(MODES[mode], collection, tensors, step, True, variables)


def passed(*gradients, of_variables=()):
    return BackwardPass(gradients, of_variables, is_finite=None, next_step=None)


def test_gradients_by_source(collection, tensors, session):
    backward = propagate(collection, tensors)
    # B = √2 I; two coordinates of "left", then two of "right".
    assert [[g is None for g in source] for source in backward.gradients] == [
        [False, False, True],
        [False, False, True],
        [False, True, False],
        [False, True, False],
    ]
    common = session.run([source[0] for source in backward.gradients])
    columns = np.sqrt(2) * np.array([[1, 0], [0, 1], [3, 0], [0, 3]])
    for found, column in zip(common, columns, strict=True):
        np.testing.assert_allclose(found, [column, column])
    assert session.run(backward.is_finite)
    assert session.run(backward.next_step) == 7


def test_tensor_that_no_loss_reaches(collection, tensors, session):
    dangling = tf.identity(tensors[0], name="dangling")
    with pytest.raises(ValueError, match=r"no registered loss depends on.*outputs: dangling:0\."):
        propagate(collection, [*tensors, dangling])


@pytest.mark.parametrize("mode", MODES)
def test_loss_that_is_not_finite(graph, session, mode):
    """The network's ReLU hides a NaN from the gradients, but not from this."""
    x = tf.constant([[np.nan, 1.0]])
    mean = tf.nn.relu(x) + x
    collection = kfac.LayerCollection()
    collection.register_squared_error_loss(mean, targets=tf.zeros([1, 2]))
    assert not session.run(propagate(collection, [x], mode).is_finite)


def test_sparse_gradients_become_dense(graph, session):
    table = tf.constant(VALUES)
    collection = kfac.LayerCollection()
    collection.register_squared_error_loss(tf.gather(table, [1, 1]), targets=tf.zeros([2, 2]))
    ((gradient,),) = propagate(collection, [table], "empirical").gradients
    np.testing.assert_allclose(session.run(gradient), [[0, 0], 4 * VALUES[1]])


def test_block_gets_zeros_where_only_some_of_its_towers_are_reached(graph, session):
    with v1.device("/cpu:3"):
        a, b, c = (tf.fill([2], value) for value in (1.0, 2.0, 3.0))
    backward = passed((a, None, c), (None, None, c), (a, b, None))
    found = block_gradients(backward, 0, (a, b))
    assert found[0][1].device == "/device:CPU:3"
    np.testing.assert_array_equal(session.run(found), [[[1, 1], [0, 0]], [[1, 1], [2, 2]]])
    assert [tuple(source) for source in block_gradients(backward, 2, (c,))] == [(c,), (c,)]


def register_rows(*rows):
    collection = kfac.LayerCollection()
    for tower, n in enumerate(rows):
        logits = v1.placeholder_with_default(tf.zeros([n or 3, 2]), [n, 2])
        collection.register_softmax_cross_entropy_loss(logits, name="logits", reuse=tower > 0)
    return collection


@pytest.mark.parametrize("rows", [(5,), (2, 3), (4, 6), (2, None)])
def test_batch_size_that_fits(graph, session, rows):
    for size in (5, tf.constant(5)):
        assert session.run(checked_batch_size(size, register_rows(*rows))) == 5


def test_batch_size_that_does_not_fit(graph, session):
    with pytest.raises(ValueError, match=r"of 5 rows: batch_size=2 does not fit to loss 'logits'"):
        checked_batch_size(2, register_rows(2, 3))
    size = checked_batch_size(2, register_rows(2, None))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"batch_size=2 does not fit to loss"):
        session.run(size)
