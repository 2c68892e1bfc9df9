import numpy as np
import pytest
import tensorflow as tf

from benchmarks.time_to_loss.initial_weights import CONNECTIONS, INITIALIZERS
from benchmarks.time_to_loss.race_settings import WEIGHTS

v1 = tf.compat.v1


def drawn(kind, shape):
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        with v1.variable_scope("", initializer=INITIALIZERS[kind]):
            weights = v1.get_variable("weights", shape)
        with v1.Session() as session:
            session.run(weights.initializer)
            return session.run(weights)


def test_kinds_are_those_of_the_races():
    assert tuple(INITIALIZERS) == WEIGHTS


@pytest.mark.parametrize("inputs", [100, CONNECTIONS, 4])
def test_sparse_units_have_as_many_normal_weights(inputs):
    weights = drawn("sparse", [inputs, 400])
    counts = np.count_nonzero(weights, axis=0)
    assert set(counts) == {min(CONNECTIONS, inputs)}
    found = weights[weights != 0]
    assert (found.mean(), found.std()) == pytest.approx((0, 1), abs=0.1)
    assert np.count_nonzero(weights, axis=1).min() > 0


def test_glorot_weights_are_uniform():
    weights = drawn("glorot", [100, 50])
    assert 0.99 * 0.2 < np.abs(weights).max() <= 0.2
    assert weights.std() == pytest.approx(0.2 / 3**0.5, rel=0.05)
