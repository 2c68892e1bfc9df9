"""Several factors fold a batch into their averages, or all refuse it."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature import averaging
from kfac.curvature.averaging import Batch, fold_batch, fold_statistics
from kfac.fisher_factors import FullyConnectedKroneckerFactor
from kfac.state import assign_all

v1 = tf.compat.v1

X = np.arange(12.0).reshape(4, 3)
DEVICES = ["/cpu:0", "/cpu:0", "/cpu:1"]


@pytest.fixture
def factors(graph):
    """Three factors of the placeholders `rows`, which are substitutes for other tensors."""
    made = [
        FullyConnectedKroneckerFactor(
            ((tf.zeros([4, 3], tf.float64),),), has_bias, ("/cpu:0",), name
        )
        for has_bias, name in ((False, "a"), (True, "b"), (False, "c"))
    ]
    for factor, device in zip(made, DEVICES, strict=True):
        factor.instantiate_cov_variables(device)
    return made


@pytest.fixture
def rows(factors):
    return [v1.placeholder(tf.float64, [4, 3]) for _ in factors]


@pytest.fixture
def fold(factors, rows, session):
    """A function that folds arrays into the averages, and returns those and the refusals."""
    substitutes = {
        factor._tensors[0][0].ref(): placeholder
        for factor, placeholder in zip(factors, rows, strict=True)
    }
    is_finite = v1.placeholder_with_default(True, [])

    def run(arrays, has_finite_loss=True):
        batch = Batch(substitutes, is_finite)
        update = assign_all(fold_batch(factors, DEVICES, batch, 0.5))
        feed = dict(zip(rows, arrays, strict=True))
        session.run(update, {**feed, is_finite: has_finite_loss})
        averages = [factor.value for factor in factors]
        refused = [factor.cov_variables[2] for factor in factors]
        return session.run([averages, refused])

    session.run(v1.global_variables_initializer())
    return run


@pytest.fixture(params=[0, 100, 2**24], ids=["all large", "one large", "none large"])
def smallest_large(request, monkeypatch):
    monkeypatch.setattr(averaging, "LARGE_STATISTIC", request.param)
    return request.param


def moments(arrays, weights=(1.0,)):
    """Returns the average of several batches of arrays for each factor."""
    found = []
    for index in range(3):
        rows = [np.c_[batch[index], np.ones(4)] for batch in arrays]
        rows = rows if index == 1 else [each[:, :3] for each in rows]
        total = sum(w * x.T @ x / 4 for w, x in zip(weights, rows, strict=True))
        found.append(total / sum(weights))
    return found


def test_two_batches_are_averaged(fold, smallest_large):
    first, second = [X, X + 1, X + 2], [X**2, -X, X - 5]
    found, refused = fold(first)
    for average, expected in zip(found, moments([first]), strict=True):
        np.testing.assert_allclose(average, expected, rtol=1e-14)
    found, refused = fold(second)
    for average, expected in zip(found, moments([first, second], (0.5, 1.0)), strict=True):
        np.testing.assert_allclose(average, expected, rtol=1e-14)
    assert refused == [0, 0, 0]


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e200])
def test_one_bad_statistic_is_refused_by_all(fold, smallest_large, bad, value):
    good = [X, X, X]
    before, _ = fold(good)
    arrays = [array.copy() for array in good]
    arrays[bad][2, 1] = value
    after, refused = fold(arrays)
    for average, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(average, expected)
    assert refused == [1, 1, 1]


def test_a_loss_that_is_not_finite_is_refused(fold, smallest_large):
    before, _ = fold([X, X, X])
    after, refused = fold([2 * X, X, X], has_finite_loss=False)
    np.testing.assert_array_equal(after[0], before[0])
    assert refused == [1, 1, 1]


def test_large_numbers_are_accepted(fold, smallest_large):
    found, refused = fold([1e100 * X, X, X])
    np.testing.assert_allclose(found[0], moments([[1e100 * X] * 3])[0], rtol=1e-14)
    assert refused == [0, 0, 0]


def test_large_statistics_of_a_device_are_computed_in_turn(factors, fold, monkeypatch, graph):
    monkeypatch.setattr(averaging, "LARGE_STATISTIC", 0)
    fold([X, X, X])
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert len(products) == 3
    first, second, third = products
    assert reaches(second, first)
    assert not reaches(third, first)
    assert not reaches(third, second)


def reaches(op, other):
    """Returns whether an operation waits for another one."""
    seen, queue = set(), [op]
    while queue:
        each = queue.pop()
        before = {tensor.op for tensor in each.inputs} | set(each.control_inputs)
        queue += before - seen
        seen |= before
    return other in seen


def test_statistics_are_folded_by_all_or_none(factors, session):
    statistics = [v1.placeholder(tf.float64, factor.cov_shape) for factor in factors]
    update = assign_all(fold_statistics(factors, DEVICES, statistics, 0.5))
    session.run(v1.global_variables_initializer())
    values = [np.eye(3), np.eye(4), 3 * np.eye(3)]
    session.run(update, dict(zip(statistics, values, strict=True)))
    bad = [2 * np.eye(3), np.full([4, 4], np.nan), np.eye(3)]
    session.run(update, dict(zip(statistics, bad, strict=True)))
    for factor, value in zip(factors, values, strict=True):
        average, refused = session.run([factor.value, factor.cov_variables[2]])
        np.testing.assert_array_equal(average, value)
        assert refused == 1
