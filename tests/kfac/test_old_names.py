"""Names and hooks of tensorflow/kfac: those that work, and errors that say what replaces others."""

import dataclasses
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.moved_names import ATTRIBUTES, OLD_MODULES, REPLACEMENTS, refuse_import
from kfac.old_hooks import OLD_HOOKS

v1 = tf.compat.v1
CLASSES = {
    "CurvatureMatrixVectorProductComputer": kfac.CurvatureMatrixVectorProductComputer,
    "FisherBlock": kfac.fisher_blocks.FisherBlock,
    "FisherEstimator": kfac.estimator.FisherEstimator,
    "FisherFactor": kfac.fisher_factors.FisherFactor,
    "KfacOptimizer": kfac.KfacOptimizer,
    "LayerCollection": kfac.LayerCollection,
    "LossFunction": kfac.loss_functions.LossFunction,
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "old_names_kfac.md"
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


@pytest.mark.parametrize("module", REPLACEMENTS)
def test_error_names_the_replacement(module):
    place = importlib.import_module(module)
    for name, replacement in REPLACEMENTS[module].items():
        told = f"module {module!r} has no attribute {name!r}, which tensorflow/kfac had. Use "
        with pytest.raises(AttributeError, match=re.escape(told + replacement)):
            getattr(place, name)
        assert not hasattr(place, name)
        assert name not in place.__dict__
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'nonsense'$"):
        _ = place.nonsense
    with pytest.raises(ImportError):
        importlib.import_module(f"{module}.nonsense")


def test_an_import_of_a_moved_name_has_the_replacement_too():
    told = "cannot import name 'PI_OFF_NAME' from 'kfac.fisher_blocks', which tensorflow/kfac had."
    with pytest.raises(ImportError, match=re.escape(told)) as failed:
        from kfac.fisher_blocks import PI_OFF_NAME  # noqa: F401, PLC0415
    assert failed.value.name == "kfac.fisher_blocks"


def test_a_package_of_old_is_refused():
    told = "there is no module 'kfac.examples', which tensorflow/kfac had. Use "
    with pytest.raises(ImportError, match=re.escape(told + REPLACEMENTS["kfac"]["examples"])):
        importlib.import_module("kfac.examples")
    with pytest.raises(ImportError, match=re.escape(told)):
        refuse_import("kfac.examples")


def test_old_places_have_what_the_new_ones_have():
    for path, new in OLD_MODULES.items():
        assert importlib.import_module(f"kfac.python.{path}") is importlib.import_module(new)
        # As the attribute of a package, too.
        assert eval(f"kfac.python.{path}", {"kfac": kfac}) is importlib.import_module(new)
    assert kfac.periodic_inv_cov_update_kfac_opt is kfac.periodic
    assert kfac.async_inv_cov_update_kfac_opt is kfac.async_updates
    assert kfac.linear_operator is kfac.linalg.linear_operator
    assert kfac.keras.optimizers.Kfac is kfac.keras.Kfac


def test_the_lines_of_the_old_tutorial(graph, session):
    """Constants are read from the collection, and the optimizer from its old module."""
    layer_collection = kfac.LayerCollection()
    names = [name for name in dir(kfac.layer_collection) if name.startswith("APPROX_")]
    for name in set(names) - {"APPROX_EKFAC_NAME"}:  # Not in tensorflow/kfac.
        value = getattr(kfac.layer_collection, name)
        assert getattr(layer_collection, name) == getattr(kfac.LayerCollection, name) == value
    images, labels = tf.ones([4, 6, 6, 1]), tf.zeros([4], tf.int32)
    params = v1.get_variable("w", [3, 3, 1, 2]), v1.get_variable("b", [2])
    logits = tf.reduce_mean(tf.nn.conv2d(images, params[0], 1, "SAME") + params[1], [1, 2])
    layer_collection.register_categorical_predictive_distribution(logits)
    layer_collection.define_linked_parameters(
        params, approximation=layer_collection.APPROX_DIAGONAL_NAME
    )
    layer_collection.auto_register_layers()
    global_step = v1.train.get_or_create_global_step()
    optimizer = kfac.periodic_inv_cov_update_kfac_opt.PeriodicInvCovUpdateKfacOpt(
        invert_every=10,
        cov_update_every=1,
        learning_rate=0.0001,
        cov_ema_decay=0.95,
        damping=0.001,
        layer_collection=layer_collection,
        placement_strategy="round_robin",
        momentum=0.9,
    )
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train_op = optimizer.minimize(loss, global_step=global_step)
    session.run(v1.global_variables_initializer())
    session.run(train_op)
    assert session.run(global_step) == 1
    assert set(layer_collection.describe().values()) == {"diagonal 20"}


def test_replacements_exist():
    texts = [text for names in REPLACEMENTS.values() for text in names.values()]
    for path in {path for text in texts for path in re.findall(r"kfac(?:\.\w+)+", text)}:
        if path != "kfac.md":
            owner, _, last = path.rpartition(".")
            assert hasattr(importlib.import_module(owner), last), path
    fields = {field.name for field in dataclasses.fields(kfac.CurvatureConfig)}
    assert set(re.findall(r"CurvatureConfig\((\w+)=", " ".join(texts))) <= fields


def test_names_are_in_the_table_of_the_docs():
    table = DOCS.read_text()
    names = {name for of_module in REPLACEMENTS.values() for name in of_module}
    assert [name for name in sorted(names) if name not in table] == []


def object_of(cls):
    """An object of a class, or if that is abstract of a class below it, without its constructor."""
    below = type("Below", (CLASSES[cls],), {})
    below.__abstractmethods__ = frozenset()
    return object.__new__(below)


@pytest.mark.parametrize("cls", ATTRIBUTES)
def test_error_names_the_attribute_that_replaces(cls):
    old, docs = object_of(cls), DOCS.read_text()
    for name, text in ATTRIBUTES[cls].items():
        told = f"'Below' object has no attribute {name!r}, which tensorflow/kfac had. Use {text}"
        with pytest.raises(AttributeError, match=re.escape(told)):
            getattr(old, name)
        assert not hasattr(old, name)
        assert name in docs
        first = re.match(r"[a-z]\w+", text).group()
        assert first in {"nothing", "the"} or hasattr(CLASSES[cls], first), first
        for member in re.findall(r"as its (\w+)", text):
            assert member in kfac.estimator.CurvatureOps._fields
    with pytest.raises(AttributeError, match=r"^'Below' object has no attribute 'nonsense'$"):
        _ = old.nonsense


def test_what_a_property_raises_is_not_hidden():
    with pytest.raises(AttributeError, match="_estimator"):
        _ = object_of("KfacOptimizer").factors


def test_misspelt_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match=r"'KfacOptimiser'\. Did you mean kfac\.KfacOp"):
        kfac.KfacOptimiser  # noqa: B018
    with pytest.raises(ImportError, match=r"'KfacOptimiser' from 'kfac'\. Did you mean kfac"):
        from kfac import KfacOptimiser  # noqa: F401, PLC0415


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
    for name, replacement in OLD_HOOKS.items():
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
