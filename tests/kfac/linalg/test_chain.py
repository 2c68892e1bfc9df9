import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg import chain

v1 = tf.compat.v1


@pytest.mark.parametrize("uses", [1, 2, 100])
def test_gain_is_the_inverse_of_a_polynomial(graph, session, uses):
    x = np.concatenate([np.linspace(0, 1, 21), 1 - np.logspace(-8, -3, 11), [0.3]])
    found = session.run(chain.symmetric_chain_gain(tf.constant(x), uses))
    expected = 1 / (uses + 2 * sum((uses - k) * x**k for k in range(1, uses)))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def moments(seed=0, size=3):
    random = np.random.RandomState(seed)
    x, y = random.randn(2, 20, size)
    y = 0.8 * x + 0.3 * y
    return np.stack([(x.T @ x + y.T @ y) / 40, y.T @ x / 40])


def chain_sum(a, g, uses, weights, symmetric):
    """Σ_k weights[k] C₀^½ (Ψ^k + its transpose) C₀^½, k = 0 once, of the Kronecker products."""
    roots, psis = [], []
    for first, cross in (a, g):
        values, vectors = np.linalg.eigh(first)
        root, inverse = (vectors * values**e @ vectors.T for e in (0.5, -0.5))
        psi = inverse @ cross @ inverse
        if symmetric:
            values, vectors = np.linalg.eigh((psi + psi.T) / 2)
            psi = (vectors * np.abs(values)) @ vectors.T
        roots.append(root)
        psis.append(psi)
    psi, root = np.kron(*psis), np.kron(*roots)
    powers = [np.linalg.matrix_power(psi, k) for k in range(len(weights))]
    terms = [w * (p + p.T) for w, p in zip(weights[1:], powers[1:], strict=True)]
    return root @ (weights[0] * np.eye(len(psi)) + sum(terms)) @ root


@pytest.mark.parametrize("function", ["symmetric_chain_block", "limiting_chain_block"])
def test_blocks_are_sums_over_pairs_of_uses(graph, session, function):
    a, g, uses = moments(), moments(1, 2), 4
    is_symmetric = function == "symmetric_chain_block"
    weights = list(range(uses, 0, -1)) if is_symmetric else [uses] * 400
    found = session.run(getattr(chain, function)(tf.constant(a), tf.constant(g), uses))
    expected = chain_sum(a, g, uses, weights, is_symmetric)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_block_of_a_singular_moment(graph, session):
    a, g = moments(), moments(1, 2)
    wide = np.pad(a, [[0, 0], [0, 1], [0, 1]])
    for function in (chain.symmetric_chain_block, chain.limiting_chain_block):
        found, narrow = session.run(
            [function(tf.constant(m), tf.constant(g), 4) for m in (wide, a)]
        )
        np.testing.assert_allclose(found[:6, :6], narrow, rtol=1e-8)
        np.testing.assert_allclose(found[6:], 0, atol=1e-12)


@pytest.mark.parametrize(("place", "bad"), [(0, np.nan), (1, np.inf)])
@pytest.mark.parametrize(("function", "rows"), [("symmetric_chain", 4), ("limiting_chain", 7)])
def test_non_finite_input_keeps_the_previous(graph, session, function, rows, bad, place):
    values = moments()
    values[place, 0, 1] = bad
    previous = tf.fill([rows, 3], tf.constant(7.0, tf.float64))
    result = getattr(chain, function)(tf.constant(values), tf.constant(0.1, tf.float64), previous)
    found, rare_paths = session.run(result)
    np.testing.assert_array_equal(found, np.full([rows, 3], 7.0))
    assert tuple(rare_paths) == (0, 0, 1)
