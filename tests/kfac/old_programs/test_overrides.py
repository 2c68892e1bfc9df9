"""Methods of subclasses that every step calls, and those that are refused."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.old_programs.table import NEVER_CALLED

v1 = tf.compat.v1
DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "old_names_kfac.md"
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


@pytest.mark.parametrize(
    ("kind", "momentum_type", "name"),
    [
        ("plain", "regular", "multiply_preconditioner"),
        ("periodic", "adam", "_multiply_preconditioner"),
        ("async", "qmodel", "multiply_preconditioner"),
        ("cluster", "qmodel", "_multiply_preconditioner"),
    ],
)
def test_every_step_calls_the_method_of_a_subclass(build_mlp, kind, momentum_type, name):
    network, calls = build_mlp(layers=1), []
    kind, more = KINDS[kind]

    def method(self, vecs_and_vars):
        calls.append([v for _, v in vecs_and_vars])
        return getattr(kind, name)(self, vecs_and_vars)

    optimizer = overriding(kind, name, method)(**more, **arguments(network, momentum_type))
    optimizer.minimize(network.losses[0], v1.train.get_or_create_global_step())
    assert calls == [network.variables]


def test_steps_are_made_of_its_products(build_mlp, rows):
    """Also of what it makes of `params_stats`; here a multiple of the mean gradient is added."""

    def corrected(self, vecs_and_vars):
        product = super(type(self), self).multiply_preconditioner(vecs_and_vars)
        by_variable = dict(zip(map(id, self.registered_variables), self.params_stats, strict=True))
        mean = [(by_variable[id(v)], v) for _, v in vecs_and_vars]
        return kfac.utils.sum_p(product, kfac.utils.sprod_p(3.0, mean))

    plain = kfac.PeriodicInvCovUpdateKfacOpt
    moves = []
    for kind in (plain, overriding(plain, "multiply_preconditioner", corrected)):
        with tf.Graph().as_default(), v1.Session() as session:
            network = build_mlp()
            adapting = {"adapt_damping": True, "loss_fn": network.loss_of}
            stats = {"compute_params_stats": True, "batch_size": 12, "momentum": None}
            given = {**arguments(network), **adapting, **stats, "train_batch": network.batch}
            optimizer = kind(invert_every=1, **given)
            pairs = optimizer.compute_gradients(network.losses[0])
            train = optimizer.apply_gradients(pairs)
            feed = network.share(rows)
            session.run(v1.global_variables_initializer())
            before, gradients = session.run([network.variables, [g for g, _ in pairs]], feed)
            session.run(train, feed)
            after = session.run(network.variables)
            moves.append([a - b for a, b in zip(after, before, strict=True)])
    for gradient, move, other in zip(gradients, *moves, strict=True):
        np.testing.assert_allclose(other, move - 0.2 * 3 * gradient, rtol=1e-8, atol=1e-12)


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


def test_methods_that_nobody_calls_are_refused(build_mlp):
    given, docs = arguments(build_mlp(layers=1)), DOCS.read_text()
    for name, replacement in NEVER_CALLED["kfac.optimizer.KfacOptimizer"].items():
        mixin = type("Mixin", (), {name: lambda self, *args: None})
        told = f"Cannot make the optimizer Mine: .*: Mixin.{name} (use {replacement}). Accepted"
        for kind, more in KINDS.values():
            mine = type("Mine", (mixin, kind), {})
            with pytest.raises(TypeError, match=re.escape(told).replace(r"\.\*", ".*")):
                mine(**more, **given)
        assert name in docs


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
