"""Names that Python and NumPy lost: programs of TensorFlow 1 find them, other modules do not."""

import collections.abc
import importlib
import math

import numpy as np
import pytest

from replicate.compat.library_views import LOST_FROM, with_lost_names
from replicate.compat.old_libraries.python import getargspec
from replicate.compat.table.libraries import CHANGED


def test_every_form_of_import_finds_them(run_source):
    pytest.importorskip("scipy")
    names = run_source(
        """
import collections
import numpy
import numpy as np
import numpy.linalg
import numpy.random as draws
from collections import Mapping, OrderedDict
from fractions import gcd
from scipy.sparse.linalg.eigen.arpack import eigsh
from inspect import getargspec
from numpy import product
from numpy.linalg import norm
from time import clock

values = np.array([1, 2, 3]).astype(np.float)
flags = np.zeros([2], np.bool)
total = product(values)
is_mapping = isinstance({}, collections.Mapping) and issubclass(OrderedDict, Mapping)
spec = getargspec(lambda a, b=2, *c, **d: None)
divisor = gcd(12, 18)
now = clock()
mean = numpy.mean(values)
length = norm(values) + numpy.linalg.norm(values)
"""
    )
    assert names.values.dtype == np.float64
    assert names.flags.dtype == np.bool_
    assert (names.total, names.divisor, names.mean) == (6.0, 6, 2.0)
    assert names.is_mapping
    assert names.spec == (["a", "b"], "c", "d", (2,))
    assert names.length == pytest.approx(2 * math.sqrt(14))
    assert names.now >= 0
    assert names.eigsh.__module__.startswith("scipy.sparse.linalg")
    assert names.draws.normal == np.random.normal


def test_names_of_numpy():
    module = with_lost_names("numpy")
    values = {
        "Inf": math.inf,
        "NINF": -math.inf,
        "float_": np.float64,
        "complex_": np.complex128,
        "string_": np.bytes_,
        "unicode_": np.str_,
        "alltrue": np.all,
        "row_stack": np.vstack,
        "object": object,
    }
    for name, value in values.items():
        assert getattr(module, name) == vars(np).get(name, value), name
    assert module.VisibleDeprecationWarning
    assert module.asscalar(np.array([3.0])) == 3.0
    assert math.isnan(module.NaN)
    np.testing.assert_array_equal(module.in1d([1, 2], [2]), [False, True])


def test_names_that_exist_stay():
    pytest.importorskip("scipy")
    for name in ("numpy", "numpy.random", "collections", "os", "json", "random", "scipy", "xml"):
        module = importlib.import_module(name)
        view = with_lost_names(name)
        names = {each for each in vars(module) if f"{name}.{each}" not in {*CHANGED, *LOST_FROM}}
        names = {each for each in names if not each.startswith("__")}
        differing = [each for each in names if getattr(view, each) is not vars(module)[each]]
        assert not differing, name
    assert not hasattr(collections, "Mapping")
    assert np.array is not with_lost_names("numpy").array


def test_names_that_a_program_sets_are_set_for_all(monkeypatch):
    view = with_lost_names("time")
    monkeypatch.setattr(view, "of_a_program", 1, raising=False)
    assert __import__("time").of_a_program == view.of_a_program == 1
    monkeypatch.delattr(__import__("time"), "of_a_program")


def test_unknown_name_is_pythons_own_error(run_source):
    with pytest.raises(AttributeError, match="'numpy' has no attribute 'nothing'"):
        _ = with_lost_names("numpy").nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        run_source("from collections import nothing")


def test_getargspec_refuses_names_only():
    with pytest.raises(ValueError, match=r"keyword-only arguments \['b'\]"):
        getargspec(lambda a, *, b: None)
