import functools

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.chain import limiting_chain_block, symmetric_chain_block

T, N = 4, 6


def folded(values):
    return values.reshape(-1, *values.shape[2:])


def formatted(values, how):
    """Values [uses, N, ...] as arrays in one of the accepted formats."""
    if how == "list":
        return list(values)
    return [values] if how == "stacked" else [folded(values[:1]), folded(values[1:])]


def register_towers(method, x, g, how):
    """Registers slices of x and g [uses, N, ...] along N in three towers; returns gradients."""
    found = []
    for tower, part in enumerate([slice(1), slice(1, 3), slice(3, N)]):
        a, b = (formatted(values[:, part], how) for values in (x, g))
        found += b
        a, b = (list(map(tf.constant, arrays)) for arrays in (a, b))
        if how == "stacked":
            a, b = a[0], b[0]
        method(a, b, num_uses=T if how == "list of folded" else None, reuse=tower > 0)
    return found


@pytest.fixture
def data():
    """Correlated inputs [T, N, 2] and gradients [T, N, 3]."""
    random = np.random.RandomState(0)
    x, g = random.randn(T, N, 2), random.randn(T, N, 3)
    for t in range(1, T):
        x[t] += 0.7 * x[t - 1]
        g[t] += 0.5 * g[t - 1] @ random.randn(3, 3) / 2
    return x, g


@pytest.mark.parametrize(
    "how",
    ["list of folded", *(pytest.param(h, marks=pytest.mark.broad) for h in ("list", "stacked"))],
)
def test_independent_uses(laboratory, moment, data, how):
    x, g = data
    lab = laboratory()
    params = lab.variable("rnn/w", [2, 3]), lab.variable("rnn/b", [3])
    method = functools.partial(lab.collection.register_fully_connected_multi, params)
    block = lab.instantiate([register_towers(method, x, g, how)])
    a = moment(np.hstack([folded(x), np.ones([T * N, 1])]))
    lab.check_kronecker(block, a, moment(folded(g)), T)
    assert block.replications() == T


def test_embedding_used_several_times(laboratory, moment):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, 4, [T, N]), random.randn(T, N, 3)
    lab = laboratory()
    lab.collection.register_fully_connected_multi(
        lab.variable("embedding", [4, 3]), [tf.constant(i) for i in ids], list(map(tf.constant, g)),
        dense_inputs=False,
    )  # fmt: skip
    block = lab.instantiate([list(g)], exponents=())
    a = np.diag(np.bincount(ids.ravel()) / (T * N))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, T * np.kron(a, moment(folded(g))), rtol=1e-10)


@pytest.mark.parametrize(
    "how", [pytest.param("stacked", marks=pytest.mark.broad), "list of folded"]
)
def test_convolutions(laboratory, reference_patches, moment, how):
    random = np.random.RandomState(0)
    x, g = random.randn(T, N, 4, 3, 2), random.randn(T, N, 4, 3, 3)
    lab = laboratory()
    args = lab.variable("conv/w", [3, 3, 2, 3]), (1, 1, 1, 1), "SAME"
    method = functools.partial(lab.collection.register_conv2d_multi, *args)
    block = lab.instantiate([register_towers(method, x, g, how)], exponents=())
    p = reference_patches(folded(x), (3, 3), (1, 1), "SAME", (1, 1))
    a, g = moment(np.concatenate(p)), moment(g.reshape(-1, 3))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, 12 * T * np.kron(a, g), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("approx", "make_block"),
    [("kron_series_1", symmetric_chain_block), ("kron_series_2", limiting_chain_block)],
)
def test_series(laboratory, moment, data, approx, make_block):
    x, g = data
    lab = laboratory()
    params = lab.variable("rnn/w", [2, 3]), lab.variable("rnn/b", [3])
    register = lab.collection.register_fully_connected_multi
    method = functools.partial(register, params, approx=approx)
    block = lab.instantiate([register_towers(method, x, g, "list")])
    rows = folded(np.concatenate([x, np.ones([T, N, 1])], axis=2)), folded(g)
    moments = [np.stack([moment(r), r[N:].T @ r[:-N] / len(r)]) for r in rows]
    pi = np.sqrt(np.trace(moments[0][0]) / np.trace(moments[1][0]))
    root = np.sqrt(0.3 / T)
    full, expected = lab.session.run(
        [block.full_fisher_block(), make_block(*map(tf.constant, moments), T)]
    )
    np.testing.assert_allclose(full, expected, rtol=1e-9, atol=1e-12)
    for pair, damping in zip(moments, (root * pi, root / pi), strict=True):
        pair[0] += damping * np.eye(3)
    damped = lab.session.run(make_block(*map(tf.constant, moments), T))
    v = np.random.RandomState(1).randn(9)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, damped @ v), v, rtol=1e-7)
    # Before the first inverse:
    has_inverse = block.has_inverse()
    assert lab.session.run(has_inverse)
    lab.session.run(tf.compat.v1.global_variables_initializer())
    assert not lab.session.run(has_inverse)
    assert not lab.product(block.multiply_inverse, v).any()
    assert block.identity_eigenvalue() == pytest.approx(T * (1 + root) ** 2)


def test_series_knows_only_its_inverse(laboratory, data):
    lab = laboratory()
    tensors = [list(map(tf.constant, values)) for values in data]
    weight = lab.variable("rnn/w", [2, 3])
    lab.collection.register_fully_connected_multi(weight, *tensors, approx="kron_series_1")
    (block,) = lab.collection.get_blocks()
    block.instantiate_factors([tensors[1]], 0.3)
    zeros = tf.zeros([2, 3], tf.float64)
    for what in (
        lambda: block.register_matpower(-0.5),
        lambda: block.multiply(zeros),
        block.register_cholesky,
        block.register_cholesky_inverse,
        lambda: block.multiply_cholesky(zeros),
        lambda: block.multiply_cholesky_inverse(zeros),
    ):
        with pytest.raises(ValueError, match=r"of layer 'rnn/w'.*approx='kron_indep'"):
            what()
