"""Expand and reduce against exact Fisher blocks, in networks in which they are exact.

These are deep linear networks: Eschenhagen et al. (2023), arXiv:2311.00636, §3.
"""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.estimator import FisherEstimator
from kfac.fisher_factors.weight_sharing import SharedIdsFactor

v1 = tf.compat.v1

N, R = 5, 3
MASK = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 0]], bool)


def register(collection, network, towers):
    """Registers the slices of the examples in one tower or two."""
    for tower, part in enumerate([slice(2), slice(2, N)] if towers == 2 else [slice(N)]):
        network(collection, part, {"reuse": tower > 0})


def variable(name, start, options):
    with v1.variable_scope("", reuse=options["reuse"]):
        made = v1.initializers.constant(start)
        return v1.get_variable(name, start.shape, tf.float64, made)


def full_blocks(collection, session):
    """The blocks that exact estimation gives, by the name of their first parameter."""
    estimator = FisherEstimator(None, 0.9, 0.1, collection, estimation_mode="exact")
    update = estimator.make_cov_update_op()
    session.run(v1.global_variables_initializer())
    session.run(update)
    blocks = {block.name: block.full_fisher_block() for block in collection.get_blocks()}
    return session.run(blocks)


def fisher(jacobians, shares):
    """Σ_nk vec(J_nk) vec(J_nk)ᵀ · 2 / N of J [N, k, parameters] for squared errors, in NumPy."""
    rows = jacobians.reshape(-1, jacobians.shape[-1])
    return 2 * rows.T @ rows / shares


def with_ones(x):
    return np.concatenate([x, np.ones([*x.shape[:-1], 1])], axis=-1)


@pytest.mark.parametrize(
    ("approx", "masked", "towers"),
    [
        ("kron_expand", True, 2),
        ("kron_reduce", True, 2),
        pytest.param("kron_expand", False, 1, marks=pytest.mark.slow),
        pytest.param("kron_reduce", False, 1, marks=pytest.mark.broad),
    ],
)
def test_deep_linear_networks(graph, session, approx, masked, towers):
    random = np.random.RandomState(0)
    x, (w, b, v) = random.randn(N, R, 2), (random.randn(*s) for s in ([2, 3], [3], [3, 2]))
    mask = MASK if masked else np.ones([N, R], bool)
    x[~mask] = np.nan if masked else 0

    def network(collection, part, options):
        hidden, bias, out = (variable(*pair, options) for pair in (("w", w), ("b", b), ("v", v)))
        inputs, kept = tf.constant(x[part]), tf.constant(mask[part])
        s = tf.tensordot(inputs, hidden, 1) + bias
        y = tf.matmul(tf.reshape(s, [-1, 3]), out)
        marks = {"mask": kept} if masked else {}
        options = {"approx": approx, **options}
        collection.register_positionwise((hidden, bias), inputs, s, **marks, **options)
        collection.register_positionwise(out, s, y, **marks, **options)
        del options["approx"]
        results = tf.where(kept[..., tf.newaxis], tf.reshape(y, [-1, R, 2]), 0.0)
        if approx == "kron_reduce":
            counts = np.maximum(mask[part].sum(axis=1), 1)[:, np.newaxis]
            results = tf.reduce_sum(results, axis=1) / counts
        collection.register_squared_error_loss(results, name="loss", **options)

    collection = kfac.LayerCollection()
    register(collection, network, towers)
    found = full_blocks(collection, session)
    a, h = with_ones(np.nan_to_num(x)), np.nan_to_num(x) @ w + b
    counts = np.maximum(mask.sum(axis=1), 1)[:, np.newaxis, np.newaxis]
    for name, inputs, gradients in (("w", a, v), ("v", h, np.eye(2))):
        jacobian = np.einsum("nri,ok->nrkio", inputs * mask[..., np.newaxis], gradients)
        if approx == "kron_reduce":
            jacobian = (jacobian / counts[..., np.newaxis, np.newaxis]).sum(axis=1)
        rows = jacobian.reshape(-1, jacobian[0].size // (2 if approx == "kron_reduce" else 2 * R))
        np.testing.assert_allclose(found[name], fisher(rows, N), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reduces", [False, True])
def test_places_and_axes(laboratory, moment, reduces):
    """A layer in two places whose outputs have two axes, without a bias."""
    random = np.random.RandomState(0)
    x, g = random.randn(N, R, 4), random.randn(N, R, 2, 3)
    lab = laboratory()
    weight = lab.variable("w", [4, 2, 3])
    approx = "kron_reduce" if reduces else "kron_expand"
    parts = [(t[:, :1], t[:, 1:]) for t in (x, g)]
    inputs, outputs = ([tf.constant(p) for p in both] for both in parts)
    lab.collection.register_positionwise(weight, inputs, outputs, approx)
    block = lab.instantiate([list(parts[1])])
    rows, flat = x.reshape(-1, 4), g.reshape(N, R, 6)
    if reduces:
        a, d = moment(x.mean(axis=1)), moment(flat.sum(axis=1))
    else:
        a, d = moment(rows), moment(flat.reshape(-1, 6)) * R
    lab.check_kronecker(block, a, d)


@pytest.mark.parametrize("masked", [False, True])
def test_embeddings(update_factors, session, masked):
    ids = np.array([[0, 1, 1], [2, 2, 0], [3, 1, 2], [0, 2, 1], [0, 0, 0]])
    mask = MASK if masked else np.ones([N, R], bool)
    masks = (tf.constant(MASK),) if masked else ()
    tensors = (((tf.constant(ids),), masks),)
    factors = [
        SharedIdsFactor((tensors,), 5, reduces, tf.float64, ("",), f"ids{reduces}")
        for reduces in (False, True)
    ]
    update_factors(*factors)
    expand, reduce = session.run([factor.value for factor in factors])
    one_hot = np.eye(5)[ids] * mask[..., np.newaxis]
    means = one_hot.sum(axis=1) / np.maximum(mask.sum(axis=1), 1)[:, np.newaxis]
    np.testing.assert_allclose(expand, one_hot.sum(axis=(0, 1)) / mask.sum())
    np.testing.assert_allclose(reduce, (means**2).sum(axis=0) / mask.any(axis=1).sum())


def test_patch_embedding(graph, session, reference_patches):
    """Reduce is exact for a convolution whose outputs are averaged before the loss."""
    random = np.random.RandomState(0)
    x, w = random.randn(N, 4, 4, 2), random.randn(2, 2, 2, 3)

    def network(collection, part, options):
        kernel = variable("w", w, options)
        inputs = tf.constant(x[part])
        s = tf.nn.conv2d(inputs, kernel, 2, "VALID")
        args = kernel, (1, 2, 2, 1), "VALID", inputs, s
        collection.register_conv2d(*args, approx="kron_reduce", **options)
        collection.register_squared_error_loss(tf.reduce_mean(s, [1, 2]), name="loss", **options)

    collection = kfac.LayerCollection()
    register(collection, network, 2)
    patches = reference_patches(x, (2, 2), (2, 2), "VALID", (1, 1)).mean(axis=1)
    rows = np.einsum("ni,ok->nkio", patches, np.eye(3)).reshape(-1, 24)
    np.testing.assert_allclose(full_blocks(collection, session)["w"], fisher(rows, N), rtol=1e-9)
