import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.moving_average import MovingAverage
from kfac.state import assign_all

v1 = tf.compat.v1


@pytest.fixture
def average(graph):
    average = MovingAverage()
    average.make_variables("fc/input", [2, 2], tf.float64, "")
    return average


def test_refused_batch_changes_nothing(average, session):
    statistic = tf.eye(2, dtype=tf.float64)
    update = assign_all(average.updated(statistic, tf.constant(False), 0.8, 1.0))
    session.run(v1.global_variables_initializer())
    session.run(update)
    total, weight, refused = session.run(average.variables)
    assert (np.abs(total).max(), weight, refused) == (0, 0, 1)


def test_constant_statistic_is_its_own_average(average, session):
    statistic = np.array([[2.0, 1.0], [1.0, 3.0]])
    update = assign_all(average.updated(tf.constant(statistic), tf.constant(True), 0.8, 0.5))
    session.run(v1.global_variables_initializer())
    assert np.isnan(session.run(average.read())).all()
    for weight in (0.5, 0.9):
        session.run(update)
        value, found = session.run([average.read(), average.read_weight()])
        np.testing.assert_allclose(value, statistic, rtol=1e-14)
        np.testing.assert_allclose(found, weight, rtol=1e-14)


def test_no_variables_before_they_are_made():
    assert MovingAverage().variables == ()
