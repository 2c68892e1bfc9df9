import numpy as np
import pytest
import tensorflow as tf

T, N = 4, 6
SIZES = {1: (6,), 3: (1, 2, 3)}


def moment(rows):
    return rows.T @ rows / len(rows)


def split_damping(a, g, times, damping=0.3):
    pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
    return np.sqrt(damping / times) * pi, np.sqrt(damping / times) / pi


def formatted(values, how):
    """Values [uses, N, ...] as tensors in one of the accepted formats, and num_uses."""
    if how == "list":
        return [tf.constant(x) for x in values], None
    if how == "stacked":
        return tf.constant(values), None
    if how == "list of folded":
        return [tf.constant(folded(values[:1])), tf.constant(folded(values[1:]))], len(values)
    return tf.constant(folded(values)), len(values)


def folded(values):
    return values.reshape(-1, *values.shape[2:])


def gradients(values, how):
    if how == "list":
        return list(values)
    if how == "list of folded":
        return [folded(values[:1]), folded(values[1:])]
    return [values if how == "stacked" else folded(values)]


def register_towers(register, values, how, towers):
    """Registers slices of x and g [uses, N, ...] along N; returns the gradients."""
    cuts = np.cumsum(SIZES[towers])[:-1]
    found = []
    for tower, (x, g) in enumerate(zip(*(np.split(v, cuts, axis=1) for v in values), strict=True)):
        (a, uses), (b, _) = formatted(x, how), formatted(g, how)
        register(a, b, num_uses=uses, reuse=tower > 0)
        found += gradients(g, how)
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
    ("how", "towers"),
    [("list", 1), ("list", 3), ("stacked", 3), ("folded", 3), ("list of folded", 3)],
)
def test_independent_uses(laboratory, data, how, towers):
    x, g = data
    lab = laboratory()
    params = lab.variable("rnn/w", [2, 3]), lab.variable("rnn/b", [3])

    def register(*args, **kwargs):
        lab.collection.register_fully_connected_multi(params, *args, **kwargs)

    block = lab.instantiate([register_towers(register, data, how, towers)])
    a = moment(np.hstack([x.reshape(-1, 2), np.ones([T * N, 1])]))
    g = moment(g.reshape(-1, 3))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, T * np.kron(a, g), rtol=1e-10)
    for_a, for_g = split_damping(a, g, T)
    v = np.random.RandomState(1).randn(9)
    damped = T * np.kron(a + for_a * np.eye(3), g + for_g * np.eye(3))
    expected = np.linalg.solve(damped, v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-9)
    assert block.replications() == T


def test_embedding_used_several_times(laboratory):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, 4, [T, N]), random.randn(T, N, 3)
    lab = laboratory()
    lab.collection.register_fully_connected_multi(
        lab.variable("embedding", [4, 3]), [tf.constant(i) for i in ids], list(map(tf.constant, g)),
        dense_inputs=False,
    )  # fmt: skip
    block = lab.instantiate([list(g)])
    a = np.diag(np.bincount(ids.ravel()) / (T * N))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, T * np.kron(a, moment(g.reshape(-1, 3))), rtol=1e-10)


@pytest.mark.parametrize("how", ["stacked", "list of folded"])
def test_convolutions(laboratory, reference_patches, how):
    random = np.random.RandomState(0)
    x, g = random.randn(T, N, 4, 3, 2), random.randn(T, N, 4, 3, 3)
    lab = laboratory()
    kernel = lab.variable("conv/w", [3, 3, 2, 3])

    def register(*args, **kwargs):
        method = lab.collection.register_conv2d_multi
        method(kernel, (1, 1, 1, 1), "SAME", *args, **kwargs)

    block = lab.instantiate([register_towers(register, (x, g), how, 3)])
    p = reference_patches(x.reshape(-1, 4, 3, 2), (3, 3), (1, 1), "SAME", (1, 1))
    a, g = moment(np.concatenate(p)), moment(g.reshape(-1, 3))
    full = lab.session.run(block.full_fisher_block())
    np.testing.assert_allclose(full, 12 * T * np.kron(a, g), rtol=1e-10, atol=1e-10)


def chain_parts(x, damping):
    """R, C₁ of rows [T, N, n], in NumPy."""
    rows = x.reshape(-1, x.shape[-1])
    values, vectors = np.linalg.eigh(moment(rows) + damping * np.eye(x.shape[-1]))
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
    ("approx", "expected", "towers"),
    [
        ("kron_series_1", option_1, 3),
        ("kron_series_2", option_2, 3),
        ("kron_series_2", option_2, 1),
    ],
)
def test_series(laboratory, data, approx, expected, towers):
    x, g = data
    lab = laboratory()
    params = lab.variable("rnn/w", [2, 3]), lab.variable("rnn/b", [3])

    def register(*args, **kwargs):
        lab.collection.register_fully_connected_multi(params, *args, approx=approx, **kwargs)

    block = lab.instantiate([register_towers(register, data, "list", towers)])
    x = np.concatenate([x, np.ones([T, N, 1])], axis=2)
    dampings = split_damping(moment(x.reshape(-1, 3)), moment(g.reshape(-1, 3)), T)
    parts = [chain_parts(rows, d) for rows, d in zip((x, g), dampings, strict=True)]
    v = np.random.RandomState(1).randn(9)
    solution = expected(v.reshape(3, 3).T, parts).T.ravel()
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), solution, rtol=1e-8)


@pytest.mark.parametrize("option", [1, 2])
def test_series_without_correlation_equals_independent_uses(laboratory, option):
    """Rows of a use are orthogonal to those of the next one."""
    x, g = np.zeros([2, 4, 2]), np.zeros([2, 4, 3])
    random = np.random.RandomState(0)
    x[0, :2], x[1, 2:] = random.randn(2, 2, 2)
    g[0, :2], g[1, 2:] = random.randn(2, 2, 3)
    found = []
    for approx in (f"kron_series_{option}", "kron_indep"):
        lab = laboratory()
        lab.collection.register_fully_connected_multi(
            lab.variable(f"{approx}/w", [2, 3]), list(map(tf.constant, x)),
            list(map(tf.constant, g)), approx=approx,
        )  # fmt: skip
        block = lab.instantiate([list(g)])
        found.append(lab.product(block.multiply_inverse, np.arange(6.0)))
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize("option", [1, 2])
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
    lab.collection.register_fully_connected_multi(
        lab.variable("rnn/w", [2, 3]), *tensors, approx="kron_series_1"
    )
    block = lab.instantiate([list(data[1])])
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


def test_product_with_a_series_before_the_first_inverse_is_zero(laboratory, data):
    for approx in ("kron_series_1", "kron_series_2"):
        lab = laboratory()
        tensors = [list(map(tf.constant, values)) for values in data]
        weight = lab.variable(f"{approx}/w", [2, 3])
        lab.collection.register_fully_connected_multi(weight, *tensors, approx=approx)
        block = lab.instantiate([list(data[1])])
        has_inverse = block.has_inverse()
        assert lab.session.run(has_inverse)
        lab.session.run(tf.compat.v1.global_variables_initializer())
        assert not lab.session.run(has_inverse)
        assert not lab.product(block.multiply_inverse, np.ones(6)).any()
        eigenvalue = block.identity_eigenvalue()
        assert eigenvalue == pytest.approx(T * (1 + np.sqrt(0.3 / T)) ** 2)
