"""Outer steps of rounds: made from optimizers and functions, with slots beside the centers."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.model_average import ModelAverageOptimizer
from replicate.model_average.getter import ModelAverageCustomGetter
from replicate.outer_step import OuterStep, nesterov

v1 = tf.compat.v1


def test_changes_are_gradients_of_the_centers(graph):
    """Three steps of Nesterov's momentum against NumPy; 16-bit centers take wider changes."""
    single = v1.get_variable("single", initializer=[1.0, 2.0])
    half = v1.get_variable("half", initializer=np.array([1.0, 2.0], np.float16))
    change = tf.constant([0.5, -0.25])
    step = OuterStep("Test", nesterov)
    train_op = step.apply([single, half], [change, change])
    expected, momentum = np.array([1.0, 2.0]), np.zeros(2)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            session.run(train_op)
            momentum = 0.9 * momentum + [0.5, -0.25]
            expected -= 0.7 * (np.array([0.5, -0.25]) + 0.9 * momentum)
        np.testing.assert_allclose(session.run(single), expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(half), expected, rtol=5e-3)
    assert {each.op.name for each in step.variables} == {"single/Momentum", "half/Momentum"}


def test_what_is_no_optimizer_is_refused(graph):
    with pytest.raises(TypeError, match=r"Test: outer_optimizer must be a .* returns one; got 0.7"):
        OuterStep("Test", 0.7)
    with pytest.raises(TypeError, match=r"got <function .*, which returned 'sgd'"):
        OuterStep("Test", lambda: "sgd")
    inner, getter = v1.train.GradientDescentOptimizer(1.0), ModelAverageCustomGetter("")
    with pytest.raises(TypeError, match=r"ModelAverageOptimizer: outer_opt.* got 'sgd'\."):
        ModelAverageOptimizer(inner, 1, True, getter, outer_optimizer="sgd")
