"""Names of tensorflow/kfac: an AttributeError that says what replaces them."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

import kfac
from kfac.moved_names import REPLACEMENTS

PAIRS = [(module, name) for module, names in REPLACEMENTS.items() for name in names]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "kfac.md"


@pytest.mark.parametrize(("module", "name"), PAIRS)
def test_error_names_the_replacement(module, name):
    place = importlib.import_module(module)
    told = f"module {module!r} has no attribute {name!r}, which tensorflow/kfac had. Use "
    with pytest.raises(AttributeError, match=re.escape(told + REPLACEMENTS[module][name])):
        getattr(place, name)
    assert not hasattr(place, name)
    assert name not in place.__dict__


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
