import numpy as np
import pytest

from kfac.update.momentum import AdamMomentum


@pytest.mark.parametrize("decay", [None, 0.1])
def test_velocities_are_gradients(run_step, gradients, velocities, damped, quadratic_change, decay):
    raw, rate, new, change = run_step(AdamMomentum(0.2, 0.9, None, decay))
    of_weights = 0.0 if decay is None else decay
    for r, n, g, v, m in zip(raw, new, gradients, velocities, damped, strict=True):
        np.testing.assert_allclose(n, 0.9 * v + g, rtol=1e-14)
        np.testing.assert_allclose(r, n / m + of_weights, rtol=1e-14)
    assert rate == 0.2
    update = [-0.2 * n / m for n, m in zip(new, damped, strict=True)]
    assert change == pytest.approx(quadratic_change(update), rel=1e-12)


def test_step_is_constrained(run_step, damped):
    raw, rate, new, _ = run_step(AdamMomentum(0.2, 0.9, 0.01, None))
    size = sum(np.sum(m * r * r) for r, m in zip(raw, damped, strict=True))
    assert rate**2 * size == pytest.approx(0.01, rel=1e-12)
    short = raw[0] / (new[0] / damped[0])
    np.testing.assert_allclose(short, short[0])
