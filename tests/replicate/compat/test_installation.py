"""install() gives TensorFlow its estimator back, and uninstall() takes all of it away."""

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf

import replicate
from replicate import compat
from replicate.compat.finder import is_api

HAS_ESTIMATOR = hasattr(tf, "estimator")
only_without = pytest.mark.skipif(HAS_ESTIMATOR, reason="this TensorFlow has tf.estimator")


LATER = "tensorflow.compat.v1.compat.v2"
"""A copy of the API that is loaded when a library imports it."""


def apis():
    return {name: module for name, module in sys.modules.items() if is_api(name)}


def state():
    """All that an installation may change."""
    return (
        {
            name: (id(module), {key: id(value) for key, value in vars(module).items()})
            for name, module in apis().items()
        },
        [id(finder) for finder in sys.meta_path],
        {name for name in sys.modules if "estimator" in name and name.startswith("tensorflow")},
    )


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The process as it was: TensorFlow's copies of its API that a test loads stay."""
    importlib.import_module("tensorflow.compat.v2")
    importlib.import_module(LATER)
    before = state()
    yield
    compat.uninstall()
    monkeypatch.undo()
    assert state() == before


IMPORT = """
import os, sys
before = list(sys.meta_path), dict(os.environ)
import replicate.compat
assert before == (sys.meta_path, dict(os.environ))
assert "tensorflow" not in sys.modules
"""


def test_importing_the_package_changes_nothing_and_loads_no_tensorflow():
    root = Path(replicate.__file__).parents[1]
    subprocess.run([sys.executable, "-c", IMPORT], cwd=root, check=True, timeout=60)


@only_without
def test_every_copy_of_the_api_has_the_estimator():
    compat.install()
    assert len(apis()) >= 5
    for name, module in apis().items():
        expected = replicate.v1 if name.endswith(".v1") else replicate
        assert module.estimator.DNNClassifier is expected.DNNClassifier, name
        assert module.estimator.Estimator is replicate.Estimator
    nested = tf.compat.v1.compat.v1, tf.compat.v2.compat.v1, tf.compat.v1.compat.v2
    assert all(module.estimator.ModeKeys is replicate.ModeKeys for module in nested)


@only_without
def test_second_call_and_repeated_removal_do_nothing_more():
    compat.install()
    first = state()
    compat.install()
    assert state() == first
    compat.uninstall()
    compat.uninstall()
    assert not hasattr(tf, "estimator")


@only_without
def test_a_copy_that_is_loaded_later_has_the_estimator(monkeypatch):
    earlier = sys.modules[LATER]
    monkeypatch.setattr(sys.modules[LATER.rpartition(".")[0]], "v2", earlier)
    monkeypatch.delitem(sys.modules, LATER)
    compat.install()
    later = importlib.import_module(LATER)
    assert later is not earlier
    assert later.estimator.Estimator is replicate.Estimator
    compat.uninstall()
    assert not hasattr(later, "estimator")


IMPORTS = """
import tensorflow.estimator as by_path
import tensorflow_estimator as package
import tensorflow_estimator.python.estimator.export.export as export_lib
from tensorflow import estimator
from tensorflow.compat.v1 import estimator as estimator_v1
from tensorflow.compat.v1.estimator import DNNClassifier
from tensorflow.estimator.export import ServingInputReceiver
from tensorflow_estimator.python.estimator import estimator as estimator_lib
from tensorflow_estimator.python.estimator.canned import head, prediction_keys
from tensorflow_estimator.python.estimator.estimator import Estimator
from tensorflow_estimator.python.estimator.tpu import tpu_estimator

class Derived(tpu_estimator.TPUEstimator):
    pass
"""


@only_without
def test_import_statements_of_libraries_find_what_they_name():
    compat.install()
    names = {"__name__": "library"}
    exec(IMPORTS, names)
    found = types.SimpleNamespace(**names)
    assert found.by_path is found.package.estimator is found.estimator
    assert found.estimator_v1.inputs.numpy_input_fn is replicate.inputs.numpy_input_fn
    assert found.DNNClassifier is replicate.v1.DNNClassifier
    assert found.ServingInputReceiver is replicate.export.ServingInputReceiver
    assert found.ServingInputReceiver is found.export_lib.ServingInputReceiver
    assert found.Estimator is found.estimator_lib.EstimatorV2 is replicate.Estimator
    assert found.prediction_keys.PredictionKeys.LOGITS == "logits"
    assert issubclass(replicate.RegressionHead, found.head._Head)
    with pytest.raises(ModuleNotFoundError, match=r"estimator\.nothing"):
        importlib.import_module("tensorflow_estimator.python.estimator.nothing")


@pytest.mark.parametrize("replaces", [False, True])
def test_an_estimator_of_tensorflow_stays_or_is_replaced_on_demand(replaces, monkeypatch):
    own = types.SimpleNamespace(Estimator="its own")  # As TensorFlow 2.15 has it.
    package = types.ModuleType("tensorflow_estimator")
    monkeypatch.setattr(tf, "estimator", own, raising=False)
    monkeypatch.setitem(sys.modules, "tensorflow_estimator", package)
    compat.install(replace=replaces)
    assert (vars(tf)["estimator"] is own) is not replaces
    assert (importlib.import_module("tensorflow_estimator") is package) is not replaces
    assert not replaces or vars(tf)["estimator"].Estimator is replicate.Estimator
    compat.uninstall()
    assert vars(tf)["estimator"] is own
    assert sys.modules["tensorflow_estimator"] is package


LIBRARY = """
import tensorflow as tf
from tensorflow.contrib.training import HParams
from . import part

class Tuned(tf.contrib.tpu.TPUEstimator, object):
    pass

def placeholder():
    import tensorflow
    return tensorflow.placeholder, part.tf

def lost():
    return tf.contrib.cudnn_rnn.CudnnRNNTanh(1, 8)
"""


def test_a_named_package_sees_tensorflow_1_and_no_other_does(tmp_path, monkeypatch):
    library = "library_of_tensorflow1"
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text(LIBRARY)
    (tmp_path / library / "part.py").write_text("import tensorflow.compat.v1 as tf")
    monkeypatch.syspath_prepend(tmp_path)
    compat.install(packages=[library])
    module = importlib.import_module(library)
    assert module.tf is not tf
    assert module.tf.estimator.LinearClassifier is replicate.v1.LinearClassifier
    assert module.HParams(a=1).a == 1
    assert module.placeholder() == (tf.compat.v1.placeholder, module.tf)
    assert sys.modules["tensorflow"] is tf
    assert not hasattr(tf, "contrib")
    with pytest.raises(AttributeError, match=r"tf.contrib.cudnn_rnn.CudnnRNNTanh cannot.*py:14\)"):
        module.lost()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.contrib")
    compat.uninstall()
    with pytest.raises(ModuleNotFoundError, match="contrib"):
        importlib.import_module(library)


def test_packages_that_were_imported_or_are_one_name_are_refused():
    with pytest.raises(ValueError, match=r"packages=\['json'\], which were imported before"):
        compat.install(packages=["json"])
    with pytest.raises(TypeError, match=r"write packages=\['adanet'\]"):
        compat.install(packages="adanet")
