import functools

import numpy as np
import pytest
import tensorflow as tf

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


def chain_parts(x, damping):
    """R, C₁ of rows [T, N, n], in NumPy."""
    rows = folded(x)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows) + damping * np.eye(x.shape[-1]))
    cross = rows[N:].T @ rows[:-N] / len(rows)
    return (vectors * values**-0.5) @ vectors.T, cross


def gain(x):
    return 1 / (T + 2 * sum((T - k) * x**k for k in range(1, T)))


def option_1(z, parts):
    bases, psis = [], []
    for r, c in parts:
        psi, u = np.linalg.eigh(r @ (c + c.T) @ r / 2)
        bases.append(r @ u)
        psis.append(np.abs(psi))
    (la, lg), (pa, pg) = bases, psis
    return lg @ (lg.T @ z @ la * gain(np.outer(pg, pa))) @ la.T


def option_2(z, parts):
    steps, bases, mus = [], [], []
    for r, c in parts:
        _, sigma, e = np.linalg.svd(r @ c @ r)
        steps.append((r @ c).T @ r)
        bases.append(r @ e.T)
        mus.append(np.minimum(sigma**2, 1))
    (pa, pg), (ka, kg), (ma, mg) = steps, bases, mus
    z = z - pg @ z @ pa.T
    z = kg @ ((kg.T @ z @ ka) / (1 - np.outer(mg, ma))) @ ka.T
    return (z - pg.T @ z @ pa) / T


@pytest.mark.parametrize(
    ("approx", "expected"), [("kron_series_1", option_1), ("kron_series_2", option_2)]
)
def test_series(laboratory, moment, data, approx, expected):
    x, g = data
    lab = laboratory()
    params = lab.variable("rnn/w", [2, 3]), lab.variable("rnn/b", [3])
    register = lab.collection.register_fully_connected_multi
    method = functools.partial(register, params, approx=approx)
    block = lab.instantiate([register_towers(method, x, g, "list")])
    x = np.concatenate([x, np.ones([T, N, 1])], axis=2)
    root = np.sqrt(0.3 / T)
    pi = np.sqrt(np.trace(moment(folded(x))) / np.trace(moment(folded(g))))
    parts = [chain_parts(x, root * pi), chain_parts(g, root / pi)]
    v = np.random.RandomState(1).randn(9)
    solution = expected(v.reshape(3, 3).T, parts).T.ravel()
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), solution, rtol=1e-8)
    # Before the first inverse:
    has_inverse = block.has_inverse()
    assert lab.session.run(has_inverse)
    lab.session.run(tf.compat.v1.global_variables_initializer())
    assert not lab.session.run(has_inverse)
    assert not lab.product(block.multiply_inverse, v).any()
    assert block.identity_eigenvalue() == pytest.approx(T * (1 + root) ** 2)


@pytest.mark.parametrize("option", [pytest.param(1, marks=pytest.mark.broad), 2])
def test_series_without_damping_inverts_its_full_block(laboratory, data, option):
    lab = laboratory()
    tensors = [list(map(tf.constant, values)) for values in data]
    weight = lab.variable("rnn/w", [2, 3])
    lab.collection.register_fully_connected_multi(weight, *tensors, approx=f"kron_series_{option}")
    block = lab.instantiate([list(data[1])], 1e-16)
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, full.T, rtol=1e-10, atol=1e-12)
    v = np.random.RandomState(1).randn(6)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, full @ v), v, rtol=1e-5)


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
