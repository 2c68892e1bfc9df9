import numpy as np
import pytest

from kfac.update.momentum import RegularMomentum


@pytest.mark.parametrize("decay", [None, 0.1])
def test_velocities_are_preconditioned(
    run_step, gradients, velocities, damped, quadratic_change, decay
):
    raw, rate, new, change = run_step(RegularMomentum(0.2, 0.9, None, decay))
    of_weights = 0.0 if decay is None else decay
    for r, n, g, v, m in zip(raw, new, gradients, velocities, damped, strict=True):
        np.testing.assert_allclose(n, 0.9 * v + g / m, rtol=1e-14)
        np.testing.assert_allclose(r, n + of_weights, rtol=1e-14)
    assert rate == 0.2
    update = [-0.2 * n for n in new]
    assert change == pytest.approx(quadratic_change(update, surplus=0.4), rel=1e-12)


def test_gradient_is_constrained_before_momentum(run_step, gradients, velocities, damped):
    raw, *_ = run_step(RegularMomentum(0.2, 0.9, 0.01, None))
    inner = sum(np.sum(g * g / m) for g, m in zip(gradients, damped, strict=True))
    short = np.sqrt(0.01 / (0.04 * inner))
    assert short < 1
    for r, g, v, m in zip(raw, gradients, velocities, damped, strict=True):
        np.testing.assert_allclose(r, 0.9 * v + short * g / m, rtol=1e-14)
