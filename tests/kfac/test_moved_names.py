"""Names of tensorflow/kfac: an AttributeError that says what replaces them."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

import kfac
from kfac.moved_names import ATTRIBUTES, REPLACEMENTS, refuse_import

CLASSES = {
    "CurvatureMatrixVectorProductComputer": kfac.CurvatureMatrixVectorProductComputer,
    "FisherBlock": kfac.fisher_blocks.FisherBlock,
    "FisherEstimator": kfac.estimator.FisherEstimator,
    "FisherFactor": kfac.fisher_factors.FisherFactor,
    "KfacOptimizer": kfac.KfacOptimizer,
    "LayerCollection": kfac.LayerCollection,
    "LossFunction": kfac.loss_functions.LossFunction,
}
MEMBERS = [(cls, name) for cls, names in ATTRIBUTES.items() for name in names]
PAIRS = [(module, name) for module, names in REPLACEMENTS.items() for name in names]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "howto" / "from_tensorflow_kfac.md"


@pytest.mark.parametrize(("module", "name"), PAIRS)
def test_error_names_the_replacement(module, name):
    place = importlib.import_module(module)
    told = f"module {module!r} has no attribute {name!r}, which tensorflow/kfac had. Use "
    with pytest.raises(AttributeError, match=re.escape(told + REPLACEMENTS[module][name])):
        getattr(place, name)
    assert not hasattr(place, name)
    assert name not in place.__dict__


def test_an_import_of_a_moved_name_has_the_replacement_too():
    told = "cannot import name 'PI_OFF_NAME' from 'kfac.fisher_blocks', which tensorflow/kfac had."
    with pytest.raises(ImportError, match=re.escape(told)) as failed:
        from kfac.fisher_blocks import PI_OFF_NAME  # noqa: F401, PLC0415
    assert failed.value.name == "kfac.fisher_blocks"


@pytest.mark.parametrize("name", ["examples", "python"])
def test_packages_of_old_are_refused(name):
    told = f"there is no module 'kfac.{name}', which tensorflow/kfac had. Use "
    with pytest.raises(ImportError, match=re.escape(told + REPLACEMENTS["kfac"][name])):
        importlib.import_module(f"kfac.{name}")
    with pytest.raises(ImportError, match=re.escape(told)):
        refuse_import(f"kfac.{name}")


@pytest.mark.parametrize(("module", "name"), PAIRS)
def test_replacement_exists(module, name):
    text = REPLACEMENTS[module][name]
    for path in re.findall(r"kfac(?:\.\w+)+", text):
        if path != "kfac.md":
            owner, _, last = path.rpartition(".")
            assert hasattr(importlib.import_module(owner), last), path
    fields = {field.name for field in dataclasses.fields(kfac.CurvatureConfig)}
    assert set(re.findall(r"CurvatureConfig\((\w+)=", text)) <= fields


@pytest.mark.parametrize(("module", "name"), PAIRS)
def test_name_is_in_the_table_of_the_docs(module, name):
    if name != "python":
        assert name in DOCS.read_text()


@pytest.mark.parametrize("module", REPLACEMENTS)
def test_other_names_are_as_unknown_as_ever(module):
    place = importlib.import_module(module)
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'nonsense'$"):
        _ = place.nonsense
    with pytest.raises(ImportError):
        importlib.import_module(f"{module}.nonsense")


def object_of(cls):
    """An object of a class, or if that is abstract of a class below it, without its constructor."""
    below = type("Below", (CLASSES[cls],), {})
    below.__abstractmethods__ = frozenset()
    return object.__new__(below)


@pytest.mark.parametrize(("cls", "name"), MEMBERS)
def test_error_names_the_attribute_that_replaces(cls, name):
    old = object_of(cls)
    told = f"'Below' object has no attribute {name!r}, which tensorflow/kfac had. Use "
    with pytest.raises(AttributeError, match=re.escape(told + ATTRIBUTES[cls][name])):
        getattr(old, name)
    assert not hasattr(old, name)
    assert name in DOCS.read_text()


@pytest.mark.parametrize(("cls", "name"), MEMBERS)
def test_attribute_that_replaces_exists(cls, name):
    text = ATTRIBUTES[cls][name]
    first = re.match(r"[a-z]\w+", text).group()
    if first not in {"nothing", "the"}:
        assert hasattr(CLASSES[cls], first), first
    for member in re.findall(r"as its (\w+)", text):
        assert member in kfac.estimator.CurvatureOps._fields


@pytest.mark.parametrize("cls", ATTRIBUTES)
def test_other_attributes_are_as_unknown_as_ever(cls):
    with pytest.raises(AttributeError, match=r"^'Below' object has no attribute 'nonsense'$"):
        _ = object_of(cls).nonsense


def test_what_a_property_raises_is_not_hidden():
    with pytest.raises(AttributeError, match="_estimator"):
        _ = object_of("KfacOptimizer").factors


def test_optimizers_that_update_by_themselves_tell_it_too():
    with pytest.raises(AttributeError, match=r"'cov_update_op'.* Use make_ops_and_vars\(\)"):
        _ = object.__new__(kfac.PeriodicInvCovUpdateKfacOpt).cov_update_op


def test_misspelt_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match=r"'KfacOptimiser'\. Did you mean kfac\.KfacOp"):
        kfac.KfacOptimiser  # noqa: B018
    with pytest.raises(ImportError, match=r"'KfacOptimiser' from 'kfac'\. Did you mean kfac"):
        from kfac import KfacOptimiser  # noqa: F401, PLC0415


def test_only_public_names_are_listed():
    assert dir(kfac) == sorted(kfac.__all__)
