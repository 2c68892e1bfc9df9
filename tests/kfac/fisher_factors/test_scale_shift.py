import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import ScaleAndShiftDiagonalFactor, ScaleAndShiftFullFactor
from kfac.fisher_factors.scale_shift import per_example_sum

X, G = np.random.RandomState(0).randn(2, 6, 4, 3)


@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 3), ()), ((3,), (1,)), ((4, 1), (2,)), ((1, 4, 1), (2,)), ((), (1, 2))]
)
def test_sum_over_broadcast_axes(graph, session, shape, axes):
    found = session.run(per_example_sum(tf.constant(X), shape))
    np.testing.assert_allclose(found, X.sum(axes).reshape(6, -1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shapes", [((3,),), ((3,), (4, 3)), ((4, 1), (3,))])
def test_second_moments(graph, session, shapes):
    towers = tuple((tf.constant(X[s]), tf.constant(G[s])) for s in (slice(4), slice(4, 6)))
    sums = {(3,): 1, (4, 3): (), (4, 1): 2}
    parts = [(X * G).sum(sums[shapes[0]]).reshape(6, -1)]
    parts += [G.sum(sums[shape]).reshape(6, -1) for shape in shapes[1:]]
    r = np.hstack(parts)
    full = ScaleAndShiftFullFactor((towers,), shapes, ("", ""), name="ln")
    diagonal = ScaleAndShiftDiagonalFactor((towers,), shapes, ("", ""), name="ln")
    assert full.dimension == diagonal.dimension == r.shape[1]
    found = session.run([full.batch_statistic(), diagonal.batch_statistic()])
    np.testing.assert_allclose(found[0], r.T @ r / 6, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], (r**2).mean(0), rtol=1e-12)
