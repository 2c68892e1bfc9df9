"""The same step inputs for all momentum rules, with the curvature diag(2, 4) ⊕ 5 and λ = 0.5."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.vectors import no_packing
from kfac.update.momentum import StepInputs

v1 = tf.compat.v1

G = (np.array([1.0, -2.0]), np.array([[3.0]]))
V = (np.array([0.5, 0.25]), np.array([[-1.0]]))
M = (np.array([2.5, 4.5]), np.array([[5.5]]))


@pytest.fixture
def gradients():
    return G


@pytest.fixture
def velocities():
    return V


@pytest.fixture
def damped():
    """The diagonal of M, damping included, shaped as the variables."""
    return M


@pytest.fixture
def inputs(graph):
    variables = [
        v1.get_variable(n, initializer=np.ones(s.shape)) for n, s in zip("ab", G, strict=True)
    ]
    return StepInputs(
        gradients=[tf.constant(g) for g in G],
        gradient_parts=[tf.constant(g) for g in G],
        variables=variables,
        weights=lambda: [variable.read_value() for variable in variables],
        velocities=[tf.constant(v) for v in V],
        packing=no_packing(V),
        precondition=lambda parts: [x / m for x, m in zip(parts, M, strict=True)],
        multiply=lambda vectors: [x * m for x, m in zip(vectors, M, strict=True)],
        damping=tf.constant(0.5, tf.float64),
        model_damping=tf.constant(0.1, tf.float64),
    )


@pytest.fixture
def run_step(inputs, session):
    """A function that returns (raw, rate, velocities, Δq) of a rule's step, as values."""

    def run(rule):
        rule.make_variables()
        step = rule.step(inputs)
        session.run(v1.global_variables_initializer())
        return session.run([step.raw, step.rate, step.velocities, step.model_change()])

    return run


@pytest.fixture
def quadratic_change():
    """A function of an update: ½uᵀMu + g·u, less ½(λ − λ')|u|² if that is wanted."""

    def change(update, surplus=0.0, damped=M):
        u, m, g = (np.concatenate([np.ravel(x) for x in parts]) for parts in (update, damped, G))
        return u @ (m * u) / 2 + g @ u - surplus * u @ u / 2

    return change
