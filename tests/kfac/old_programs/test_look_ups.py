"""Names of tensorflow/kfac: those that work, and errors that say what replaces others."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest
import tensorflow as tf

import kfac
from kfac.curvature.by_hand import CurvatureOps
from kfac.old_programs.look_ups import found_at, refuse_import
from kfac.old_programs.table import GONE, MOVED

v1 = tf.compat.v1
MODULES = [place for place in GONE if place.rpartition(".")[2].islower()]
CLASSES = [place for place in GONE if place not in MODULES]
DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "old_names_kfac.md"


@pytest.mark.parametrize("module", MODULES)
def test_error_names_the_replacement(module):
    place = importlib.import_module(module)
    for name, replacement in GONE[module].items():
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
    with pytest.raises(ImportError, match=re.escape(told + GONE["kfac"]["examples"])):
        importlib.import_module("kfac.examples")
    with pytest.raises(ImportError, match=re.escape(told)):
        refuse_import("kfac.examples")


def test_old_places_have_what_the_new_ones_have():
    paths = {f"{place}.{name}": new for place in MOVED for name, new in MOVED[place].items()}
    for path, new in paths.items():
        # As the attribute of a package, too.
        assert eval(path, {"kfac": kfac}) is found_at(new)
        if path.startswith("kfac.python."):
            assert importlib.import_module(path) is found_at(new)
    assert kfac.periodic_inv_cov_update_kfac_opt is kfac.periodic
    assert kfac.async_inv_cov_update_kfac_opt is kfac.async_updates
    assert kfac.linear_operator is kfac.linalg.linear_operator
    assert kfac.keras.optimizers.Kfac is kfac.keras.Kfac


def test_the_lines_of_the_old_tutorial(graph, session):
    """Constants are read from the collection, and the optimizer from its old module."""
    layer_collection = kfac.LayerCollection()
    names = [name for name in dir(kfac.layer_collection) if name.startswith("APPROX_")]
    new = {f"APPROX_{name}_NAME" for name in ("EKFAC", "KRONECKER_EXPAND", "KRONECKER_REDUCE")}
    for name in set(names) - new:  # Those of tensorflow/kfac.
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
    texts = [text for names in GONE.values() for text in names.values()]
    for path in {path for text in texts for path in re.findall(r"kfac(?:\.\w+)+", text)}:
        if path != "kfac.md":
            owner, _, last = path.rpartition(".")
            assert hasattr(importlib.import_module(owner), last), path
    fields = {field.name for field in dataclasses.fields(kfac.CurvatureConfig)}
    assert set(re.findall(r"CurvatureConfig\((\w+)=", " ".join(texts))) <= fields


def test_names_are_in_the_table_of_the_docs():
    table = DOCS.read_text()
    names = {name for of_module in GONE.values() for name in of_module}
    assert [name for name in sorted(names) if name not in table] == []


def object_of(cls):
    """An object of a class, or if that is abstract of a class below it, without its constructor."""
    below = type("Below", (found_at(cls),), {})
    below.__abstractmethods__ = frozenset()
    return object.__new__(below)


@pytest.mark.parametrize("cls", CLASSES)
def test_error_names_the_attribute_that_replaces(cls):
    old, docs = object_of(cls), DOCS.read_text()
    for name, text in GONE[cls].items():
        told = f"'Below' object has no attribute {name!r}, which tensorflow/kfac had. Use {text}"
        with pytest.raises(AttributeError, match=re.escape(told)):
            getattr(old, name)
        assert not hasattr(old, name)
        assert name in docs
        first = re.match(r"[a-z]\w+", text).group()
        assert first in {"nothing", "the"} or hasattr(found_at(cls), first), first
        for member in re.findall(r"as its (\w+)", text):
            assert member in CurvatureOps._fields
    with pytest.raises(AttributeError, match=r"^'Below' object has no attribute 'nonsense'$"):
        _ = old.nonsense


def test_what_a_property_raises_is_not_hidden():
    with pytest.raises(AttributeError, match="_estimator"):
        _ = object_of("kfac.optimizer.KfacOptimizer").factors


def test_misspelt_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match=r"'KfacOptimiser'\. Did you mean kfac\.KfacOp"):
        kfac.KfacOptimiser  # noqa: B018
    with pytest.raises(ImportError, match=r"'KfacOptimiser' from 'kfac'\. Did you mean kfac"):
        from kfac import KfacOptimiser  # noqa: F401, PLC0415
