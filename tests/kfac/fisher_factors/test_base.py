"""Factors: moving averages, dtypes, devices, and statistics that are refused."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import FullyConnectedDiagonalFactor, FullyConnectedKroneckerFactor
from kfac.fisher_factors.kept import fold_average

v1 = tf.compat.v1


@pytest.fixture
def rows(graph):
    return v1.placeholder(tf.float64, [None, 2])


@pytest.fixture
def factor(rows):
    factor = FullyConnectedKroneckerFactor(((rows,),), False, ("",), name="fc/input")
    factor.instantiate_cov_variables()
    return factor


def moment(x):
    return x.T @ x / len(x)


def test_variables_are_named_after_the_factor(factor):
    before = factor.cov_variables
    names = [variable.op.name for variable in before]
    assert names == [f"kfac/fc/input/{leaf}" for leaf in ("cov", "cov_weight", "cov_refused")]
    factor.instantiate_cov_variables()
    assert factor.cov_variables == before


def test_substitutes_replace_the_tensors(factor, rows, session):
    other = np.array([[1.0, 2.0]])
    statistic = factor.batch_statistic({rows.ref(): tf.constant(other)})
    np.testing.assert_allclose(session.run(statistic), moment(other))


def test_batches_that_are_not_finite_or_empty_are_refused_and_counted(factor, rows, session):
    update = factor.make_covariance_update_op(0.8)
    session.run(v1.global_variables_initializer())
    session.run(update, {rows: [[1.0, 2.0]]})
    before = session.run(factor.cov_variables)
    for bad in ([[1.0, np.nan], [1.0, 1.0]], [[1.0, np.inf]], np.zeros([0, 2])):
        session.run(update, {rows: bad})
    after = session.run(factor.cov_variables)
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1] == after[1] == 1.0
    assert (before[2], after[2]) == (0, 3)


def test_constant_statistic_is_its_own_average(factor, session):
    statistic = np.array([[2.0, 1.0], [1.0, 3.0]])
    given = tf.constant(statistic), tf.constant(True)
    update = fold_average(factor.cov_variables, *given, beta=0.8, omega=0.5)
    session.run(v1.global_variables_initializer())
    assert np.isnan(session.run(factor.value)).all()
    for weight in (0.5, 0.9):
        session.run(update)
        value, found = session.run([factor.value, factor.read_weight()])
        np.testing.assert_allclose(value, statistic, rtol=1e-14)
        np.testing.assert_allclose(found, weight, rtol=1e-14)


def test_decay_and_weight_that_only_the_run_knows(factor, rows, session):
    decay, weight = v1.placeholder(tf.float64, []), v1.placeholder(tf.float32, [])
    batch = np.array([[2.0, 1.0], [1.0, 3.0]])
    update = factor.make_covariance_update_op(lambda: decay, weight)
    session.run(v1.global_variables_initializer())
    for fed in ((0.5, 2.0), (0.25, 4.0)):
        session.run(update, {rows: batch, **dict(zip((decay, weight), fed, strict=True))})
    total, found, _ = session.run(factor.cov_variables)
    assert found == 0.25 * 2 + 4
    np.testing.assert_array_equal(total, found * moment(batch))


def test_an_update_is_one_operation_of_a_device(graph):
    factor = FullyConnectedDiagonalFactor(
        (((tf.ones([2, 3]), tf.ones([2, 1])),),), False, ("",), "fc"
    )
    factor.instantiate_cov_variables("/cpu:1")
    before = len(graph.get_operations())
    given = tf.ones([3]), tf.constant(True)
    update = fold_average(factor.cov_variables, *given, beta=0.5, omega=1.0)
    assert len(graph.get_operations()) == before + 3  # Two are the arguments.
    assert update.device == "/device:CPU:1"
