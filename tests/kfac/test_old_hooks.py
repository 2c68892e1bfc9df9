"""Subclasses of K-FAC's optimizers, as programs for tensorflow/kfac have them."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.old_hooks import OLD_HOOKS

v1 = tf.compat.v1

DOCS = Path(__file__).resolve().parents[2] / "docs" / "howto" / "from_tensorflow_kfac.md"
KINDS = {
    "plain": (kfac.KfacOptimizer, {}),
    "periodic": (kfac.PeriodicInvCovUpdateKfacOpt, {"invert_every": 1}),
    "async": (kfac.AsyncInvCovUpdateKfacOpt, {}),
    "cluster": (
        kfac.ClusterKfacOpt,
        {"worker": kfac.WorkerRole("shared", num_workers=1, task_index=0)},
    ),
}
MOMENTA = {
    "regular": {"learning_rate": 0.2, "momentum": 0.8},
    "adam": {"learning_rate": 0.2, "momentum": 0.8},
    "qmodel": {"learning_rate": None, "momentum": None},
}


def arguments(network, momentum_type="adam", **kwargs):
    settings = {"damping": 0.3, "estimation_mode": "empirical", **MOMENTA[momentum_type]}
    layers = {"layer_collection": network.collection, "momentum_type": momentum_type}
    return {**settings, **layers, **kwargs}


def overriding(kind, name, method):
    """A subclass of an optimizer with a method."""
    return type("Mine", (kind,), {name: method})


@pytest.mark.parametrize("name", ["multiply_preconditioner", "_multiply_preconditioner"])
@pytest.mark.parametrize("momentum_type", MOMENTA)
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_calls_the_method_of_a_subclass(build_mlp, kind, momentum_type, name):
    network, calls = build_mlp(layers=1), []
    kind, more = KINDS[kind]

    def method(self, vecs_and_vars):
        calls.append([v for _, v in vecs_and_vars])
        return getattr(kind, name)(self, vecs_and_vars)

    optimizer = overriding(kind, name, method)(**more, **arguments(network, momentum_type))
    optimizer.minimize(network.losses[0], v1.train.get_or_create_global_step())
    assert calls == [network.variables]


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("name", ["multiply_preconditioner", "_multiply_preconditioner"])
def test_steps_are_made_of_its_products(build_mlp, rows, name, adapt):
    """A correction by the mean gradient w, as of M + w wᵀ.

    (M + w wᵀ)⁻¹x = M⁻¹x − M⁻¹w (w·M⁻¹x) / (1 + w·M⁻¹w). With x = w it is M⁻¹w / (1 + w·M⁻¹w).
    """

    def corrected(self, vecs_and_vars):
        inherited = getattr(super(type(self), self), name)
        by_variable = dict(zip(map(id, self.registered_variables), self.params_stats, strict=True))
        mean = [(by_variable[id(v)], v) for _, v in vecs_and_vars]
        product, of_mean = inherited(vecs_and_vars), inherited(mean)
        share = kfac.utils.ip_p(mean, product) / (1.0 + kfac.utils.ip_p(mean, of_mean))
        return kfac.utils.sum_p(product, kfac.utils.sprod_p(-share, of_mean))

    plain = kfac.PeriodicInvCovUpdateKfacOpt
    moves = []
    for kind in (plain, overriding(plain, name, corrected)):
        with tf.Graph().as_default(), v1.Session() as session:
            network = build_mlp()
            batch = {"train_batch": network.batch, "loss_fn": network.loss_of}
            more = {"adapt_damping": True, **batch} if adapt else {}
            stats = {"compute_params_stats": True, "batch_size": 12}
            given = {**arguments(network, "adam"), "momentum": None, **stats, **more}
            optimizer = kind(invert_every=1, **given)
            pairs = optimizer.compute_gradients(network.losses[0])
            train = optimizer.apply_gradients(pairs)
            feed = network.feed([rows[0]], [rows[1]])
            session.run(v1.global_variables_initializer())
            before, gradients = session.run([network.variables, [g for g, _ in pairs]], feed)
            session.run(train, feed)
            after = session.run(network.variables)
            changes = [np.ravel(a - b) for a, b in zip(after, before, strict=True)]
            moves.append(np.concatenate(changes))
    gradient = np.concatenate([np.ravel(g) for g in gradients])
    expected = moves[0] / (1 - gradient @ moves[0] / 0.2)
    np.testing.assert_allclose(moves[1], expected, rtol=1e-8)


def test_it_may_be_called_outside_of_a_step(build_mlp, session, rows):
    network = build_mlp(layers=1)
    optimizer = kfac.KfacOptimizer(**arguments(network))
    vector = [(tf.ones_like(v), v) for v in network.variables]
    products = [product for product, _ in optimizer.multiply_preconditioner(vector)]
    session.run(v1.global_variables_initializer())
    eigenvalue = (1 + np.sqrt(0.3)) ** 2
    for product in session.run(products):
        np.testing.assert_allclose(product, np.full(product.shape, 1 / eigenvalue))


def test_a_product_that_is_missing(build_mlp):
    network = build_mlp(layers=1)
    kind = overriding(kfac.KfacOptimizer, "multiply_preconditioner", lambda self, pairs: pairs[1:])
    with pytest.raises(ValueError, match=r"no product for mlp/logits/w. It must return a pair"):
        kind(**arguments(network)).minimize(network.losses[0])


@pytest.mark.parametrize("name", OLD_HOOKS)
def test_methods_that_nobody_calls_are_refused(build_mlp, name):
    network = build_mlp(layers=1)
    mixin = type("Mixin", (), {name: lambda self, *args: None})
    told = f"Cannot make the optimizer Mine: .*: Mixin.{name} (use {OLD_HOOKS[name]}). Accepted"
    for kind, more in KINDS.values():
        mine = type("Mine", (mixin, kind), {})
        with pytest.raises(TypeError, match=re.escape(told).replace(r"\.\*", ".*")):
            mine(**more, **arguments(network))
    assert name in DOCS.read_text()


def test_methods_that_are_called_are_accepted(build_mlp):
    network = build_mlp(layers=1)
    names = ("minimize", "compute_gradients", "apply_gradients", "variables", "helper")
    methods = {name: lambda self, *args: None for name in names}
    for kind, more in KINDS.values():
        type("Mine", (kind,), methods)(**more, **arguments(network))


@pytest.mark.parametrize(
    ("base", "method", "general"),
    [
        (kfac.fisher_blocks.KroneckerBlock, "multiply_inverse", "multiply_function"),
        (kfac.fisher_blocks.SingleFactorBlock, "register_matpower", "register"),
        (kfac.fisher_factors.MatrixFactor, "get_cholesky", "operator"),
    ],
)
def test_blocks_and_factors_refuse_methods_for_a_single_function(base, method, general):
    message = rf"class Corrected: it overrides {method}, .* Override .*\b{general}\(function"
    with pytest.raises(TypeError, match=message):
        type("Corrected", (base,), {method: lambda *args: None})
