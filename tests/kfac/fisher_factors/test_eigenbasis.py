import numpy as np
import tensorflow as tf

from kfac.config import CurvatureConfig
from kfac.curvature.inverses_in_turn import compute_in_turn
from kfac.fisher_factors import (
    ConvEigenbasisFactor,
    ConvInputKroneckerFactor,
    ConvOutputKroneckerFactor,
    FullyConnectedEigenbasisFactor,
    FullyConnectedKroneckerFactor,
)
from kfac.patches.extraction import ConvGeometry

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
X, G = RANDOM.randn(12, 3), RANDOM.randn(2, 12, 2)
ONES = np.ones([12, 1])


def dense_factors(config=None):
    """A, G and s of a dense layer with a bias, with two sources of gradients."""
    inputs, gradients = tf.constant(X), [tf.constant(g) for g in G]
    sources = tuple((g,) for g in gradients)
    a = FullyConnectedKroneckerFactor(((inputs,),), True, ("",), "fc/w/input", config)
    g = FullyConnectedKroneckerFactor(sources, False, ("",), "fc/w/output", config)
    tensors = tuple(((inputs, g),) for g in gradients)
    s = FullyConnectedEigenbasisFactor(tensors, (a, g), 1, True, ("",), "fc/w", config)
    return a, g, s


class Updates:
    """Makes the variables of factors; runs updates of averages and of bases."""

    def __init__(self, session, factors, decay=0.5):
        for factor in factors:
            factor.instantiate_cov_variables()
            factor.instantiate_inv_variables()
        self._averages = [factor.make_covariance_update_op(decay) for factor in factors]
        self._bases = factors[-1].make_inverse_update_ops()
        self._session = session
        session.run(v1.global_variables_initializer())

    def average(self, feed=None):
        self._session.run(self._averages, feed)

    def bases(self):
        self._session.run(self._bases)


def moment(rows):
    return rows.T @ rows / len(rows)


def rotated_squares(examples, bases):
    """Mean of the squared entries of gradients [N, in, out] in two bases."""
    return (np.einsum("ij,nio,ok->njk", bases.input, examples, bases.output) ** 2).mean(0)


def test_statistic_of_a_convolution(graph, session, reference_patches):
    images, gradients = RANDOM.randn(3, 4, 5, 2), RANDOM.randn(3, 2, 3, 3)
    geometry = ConvGeometry((3, 2), (2, 2), "SAME", (1, 1), channels_first=True)
    mask = tuple(RANDOM.rand(12))
    x, g = (tf.constant(t.transpose(0, 3, 1, 2)) for t in (images, gradients))
    a = ConvInputKroneckerFactor(((x,),), geometry, True, ("",), None, mask, name="in")
    b = ConvOutputKroneckerFactor(((g,),), geometry, ("",), name="out")
    args = (((x, g),),), (a, b), 6, True, ("",), geometry, mask
    factor = ConvEigenbasisFactor(*args, name="conv")
    updates = Updates(session, (a, b, factor))
    updates.average()
    updates.bases()
    bases, found = session.run([factor.get_bases(), factor.batch_statistic()])
    patches = reference_patches(images, (3, 2), (2, 2), "SAME", (1, 1)) * mask
    patches = np.concatenate([patches, np.ones([3, 6, 1])], axis=2)
    examples = np.einsum("nti,nto->nio", patches, gradients.reshape(3, 6, 3))
    np.testing.assert_allclose(found, rotated_squares(examples, bases).ravel(), rtol=1e-10)
    assert factor.inverse_cost == 13**3 + 3**3
    assert factor.cov_bytes == 8 * 13 * 3
    assert factor.inverse_bytes == 8 * (14 * 13 + 4 * 3)


def test_average_starts_at_the_eigenvalues_of_the_product(graph, session):
    factors = dense_factors()
    updates = Updates(session, factors)
    for _ in range(2):
        updates.average()
    assert not session.run(factors[-1].value).any()
    updates.bases()
    values = [np.linalg.eigvalsh(m) for m in (moment(np.hstack([X, ONES])), sum(map(moment, G)))]
    found, weight = session.run([factors[-1].value, factors[-1].cov_variables[1]])
    np.testing.assert_allclose(found, np.outer(*values).ravel(), rtol=1e-10)
    assert weight == 1.5


def test_average_moves_with_the_bases(graph, session):
    x, g = v1.placeholder_with_default(X, [12, 3]), tf.constant(G[0])
    a = FullyConnectedKroneckerFactor(((x,),), False, ("",), "fc/w/input")
    b = FullyConnectedKroneckerFactor(((g,),), False, ("",), "fc/w/output")
    args = (((x, g),),), (a, b), 1, False, ("",), "fc/w"
    factor = FullyConnectedEigenbasisFactor(*args)
    updates = Updates(session, (a, b, factor))
    updates.average()
    updates.bases()
    updates.average()
    old, before = session.run([factor.get_bases(), factor.value])
    updates.bases()
    np.testing.assert_allclose(session.run(factor.value), before, rtol=1e-10)
    updates.average({x: RANDOM.randn(12, 3) * [3.0, 1.0, 0.1]})
    before = session.run(factor.value)
    updates.bases()
    new, after = session.run([factor.get_bases(), factor.value])
    assert np.abs(old.input - new.input).max() > 0.1
    vectors = np.kron(*old)
    block = (vectors * before) @ vectors.T
    vectors = np.kron(*new)
    np.testing.assert_allclose(after, (vectors.T @ block @ vectors).diagonal(), rtol=1e-10)


def test_bases_are_assigned_after_the_average_was_moved(graph):
    factors = dense_factors()
    for factor in factors:
        factor.instantiate_cov_variables()
        factor.instantiate_inv_variables()
    (changes,) = compute_in_turn(factors[-1:], [""])
    *bases, average = factors[-1].move_average(changes)
    assert average.variable is factors[-1].cov_variables[0]
    assert all(basis.value.op.control_inputs == [average.value.op] for basis in bases)


def test_non_finite_statistic_keeps_the_bases(graph, session):
    factors = dense_factors()
    updates = Updates(session, factors)
    updates.bases()
    assert not any(basis.any() for basis in session.run(factors[-1].get_bases()))
    counts = [slot.read_rare_paths() for slot in factors[-1].inverses]
    assert [tuple(count) for count in session.run(counts)] == [(0, 0, 1)] * 2
    updates.average()
    updates.bases()
    kept = [factors[-1].get_bases(), factors[-1].value]
    bases, value = session.run(kept)
    session.run(v1.assign(factors[0].cov_variables[1], 0.0))
    updates.bases()
    again, moved = session.run(kept)
    np.testing.assert_array_equal(bases.input, again.input)
    np.testing.assert_allclose(moved, value, rtol=1e-10)


def test_variables_are_of_single_precision_at_least(graph):
    for dtype, expected in ((tf.bfloat16, tf.float32), (tf.float64, tf.float64)):
        factor = dense_factors(CurvatureConfig(inverse_dtype=dtype))[-1]
        factor.instantiate_cov_variables()
        factor.instantiate_inv_variables()
        assert {v.dtype.base_dtype for v in factor.inv_variables[::2]} == {expected}
        assert factor.inv_variables == factor.inverse_update_vars[:-1]
        assert factor.inverse_update_vars[-1] is factor.cov_variables[0]
