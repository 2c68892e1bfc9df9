import numpy as np
import pytest
import tensorflow as tf

from kfac.update.momentum.qmodel import QuadraticModel, QuadraticModelMomentum

v1 = tf.compat.v1


class DiagonalCurvature:
    """A diagonal F, and what it was asked for."""

    def __init__(self, diagonal):
        self._diagonal = diagonal

    def model(self, variables, direction, previous, gradients, dtype):
        del variables, dtype
        self.direction = direction.parts

        def inner(x, y, weights=(1.0, 1.0)):
            parts = zip(x, y, weights, strict=True)
            return tf.add_n([tf.reduce_sum(a * b * w) for a, b, w in parts])

        pair = (direction.parts, previous.parts)
        return QuadraticModel(
            curvature=tf.stack([[inner(x, y, self._diagonal) for y in pair] for x in pair]),
            squares=tf.stack([[inner(x, y) for y in pair] for x in pair]),
            slopes=tf.stack([inner(x, gradients) for x in pair]),
        )


@pytest.fixture
def exact(damped):
    """The diagonal of F, other than that of M − λI."""
    return [damped[0] + [2, -1], damped[1]]


def solve(gradients, velocities, damped, exact):
    """The directions, and their products with one another in F + λI and with the gradient."""
    d, u, m, g = (
        np.concatenate([np.ravel(x) for x in parts])
        for parts in (
            [g / m for g, m in zip(gradients, damped, strict=True)],
            [-v for v in velocities],
            [f + 0.5 for f in exact],
            gradients,
        )
    )
    both = np.stack([d, u], axis=1)
    return both, both.T @ (m[:, None] * both), both.T @ g


@pytest.mark.parametrize(("fixed", "rescale"), [(None, 0.5), (0.7, None)])
def test_step_is_the_minimum_of_the_model(
    run_step, gradients, velocities, damped, exact, quadratic_change, fixed, rescale
):
    rule = QuadraticModelMomentum(DiagonalCurvature(exact), fixed, rescale, None, tf.float64)
    raw, rate, new, change = run_step(rule)
    directions, matrix, slopes = solve(gradients, velocities, damped, exact)
    if fixed is None:
        x = np.linalg.solve(matrix, -slopes)
    else:
        x = np.array([-(fixed * matrix[0, 1] + slopes[0]) / matrix[0, 0], fixed])
    update = directions @ x
    np.testing.assert_allclose(np.concatenate([np.ravel(n) for n in new]), -update, rtol=1e-12)
    np.testing.assert_array_equal(raw[1], new[1])
    assert rate == (rescale or 1)
    moved = [rate * update[:2], rate * update[2:]]
    damped_exact = [f + 0.5 for f in exact]
    expected = quadratic_change(moved, surplus=0.4, damped=damped_exact)
    assert change == pytest.approx(expected, rel=1e-12)


def test_what_was_chosen_is_kept(inputs, session, gradients, velocities, damped, exact):
    rule = QuadraticModelMomentum(DiagonalCurvature(exact), None, 0.5, None, tf.float32)
    shown = [rule.learning_rate, rule.momentum]
    state = rule.step(inputs).state
    session.run(v1.global_variables_initializer())
    assert np.isnan(session.run(shown)).all()
    assert [v.op.name for v in rule.variables] == [
        "kfac/qmodel_learning_rate",
        "kfac/qmodel_momentum",
    ]
    session.run([v1.assign(*pair) for pair in state])
    _, matrix, slopes = solve(gradients, velocities, damped, exact)
    alpha, mu = np.linalg.solve(matrix, -slopes)
    np.testing.assert_allclose(session.run(shown), [-0.5 * alpha, mu], rtol=1e-6)
    assert set(rule.summaries) == {"learning_rate", "momentum"}


def test_decay_is_part_of_the_direction(run_step, session, gradients, damped):
    curvature = DiagonalCurvature(damped)
    run_step(QuadraticModelMomentum(curvature, None, None, 0.1, tf.float32))
    found = session.run(curvature.direction)
    for d, g, m in zip(found, gradients, damped, strict=True):
        np.testing.assert_allclose(d, g / m + 0.1, rtol=1e-12)
