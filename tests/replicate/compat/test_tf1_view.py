"""The view of TensorFlow 1, and the imports of the modules that see it."""

import importlib
import sys
from importlib.util import find_spec

import pytest
import tensorflow as tf

import replicate
from replicate.compat import cells
from replicate.compat.absent import is_absent
from replicate.compat.mnist import input_data
from replicate.compat.old_modules import OldModule
from replicate.compat.tf1_view import tensorflow1

VIEW = tensorflow1()
needs_slim = pytest.mark.skipif(find_spec("tf_slim") is None, reason="needs tf-slim")


def test_names_are_those_of_tensorflow_1():
    assert VIEW.placeholder is tf.compat.v1.placeholder
    assert VIEW.estimator.Estimator is replicate.Estimator
    assert VIEW.compat.v1 is VIEW
    assert VIEW.compat.v2.constant is tf.constant
    assert VIEW.compat.as_bytes("a") == b"a"
    assert VIEW.__version__ == "1.15.5"
    assert {"Session", "contrib", "estimator"} <= set(dir(VIEW))
    assert not hasattr(VIEW, "nothing")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("optimizers", r"tf\.optimizers cannot be used .*TensorFlow 2 with `python PROGRAM`"),
        ("nothing", r"tf\.nothing cannot be used .*test_tf1_view.py:\d+.*no such name"),
    ],
)
def test_names_of_tensorflow_2_and_of_none_are_told_apart(name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(VIEW, name)


def test_every_form_of_import(run_source):
    names = run_source(
        """
import tensorflow
import tensorflow as tf
import tensorflow.compat.v1 as v1
import tensorflow.contrib.learn as learn
import tensorflow.python.ops.array_ops as array_ops
from tensorflow import estimator, logging
from tensorflow.compat.v1.estimator import RunConfig
from tensorflow.contrib import kfac
from tensorflow.contrib.cudnn_rnn.python.layers import CudnnRNNTanh
from tensorflow.core.framework import graph_pb2
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.estimator.canned.head import _Head
from tensorflow.python.framework import ops
import tensorflow.python.client.device_lib
import os.path as path
"""
    )
    assert names.tensorflow is names.tf is names.v1 is VIEW
    assert names.estimator is VIEW.estimator
    assert names.RunConfig is replicate.RunConfig
    assert names.learn is VIEW.contrib.learn
    assert is_absent(names.CudnnRNNTanh)
    assert names.input_data.read_data_sets is input_data.read_data_sets
    assert issubclass(replicate.Head, names._Head)
    assert names.ops is VIEW.python.framework.ops
    real = importlib.import_module("tensorflow.python.framework.ops")
    assert names.ops.name_scope is real.name_scope
    assert names.array_ops is VIEW.python.ops.array_ops
    assert names.logging is tf.compat.v1.logging
    assert names.graph_pb2.GraphDef is tf.compat.v1.GraphDef
    assert hasattr(names.path, "join")


def test_cells_stand_in_tf_nn_and_in_private_modules(run_source):
    names = run_source(
        """
from tensorflow.nn.rnn_cell import LSTMCell
from tensorflow.python.ops.rnn_cell import *
from tensorflow.python.ops.rnn_cell_impl import _Linear, _like_rnncell, _zero_state_tensors
"""
    )
    assert names.LSTMCell is cells.LSTMCell is VIEW.nn.rnn_cell.LSTMCell
    assert names.GRUCell is cells.GRUCell
    assert names.RNNCell is VIEW.contrib.rnn.RNNCell
    assert VIEW.nn.relu is tf.nn.relu
    assert {"relu", "rnn_cell"} <= set(dir(VIEW.nn))


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow.nothing",
        "import tensorflow.estimator.nothing",
        "from tensorflow.python import nothing",
        "from . import part",
    ],
)
def test_imports_of_what_is_not_there_fail(source, run_source):
    with pytest.raises(ImportError):
        run_source(source)


@needs_slim
def test_modules_below_contrib_are_found(run_source):
    names = run_source(
        """
import tensorflow.contrib.slim as slim
from tensorflow.contrib.slim.nets import vgg
from tensorflow.contrib.slim.python.slim import queues, nothing
from tensorflow.contrib.framework.python.ops import arg_scope, variables
from tensorflow.contrib.layers.python.layers.layers import conv2d
from tensorflow.contrib.training.python.training.hparam import HParams
import tf_slim
"""
    )
    assert names.conv2d is names.slim.conv2d
    assert names.arg_scope is names.slim.arg_scope
    assert names.variables.get_variables is names.slim.get_variables
    assert callable(names.vgg.vgg_16)
    assert names.HParams(a=1).a == 1
    assert names.tf_slim.batch_norm is names.slim.batch_norm  # It is repaired, too.
    assert callable(names.queues.QueueRunners)
    with pytest.raises(AttributeError, match=r"tf\.contrib\.slim\.nothing\.run cannot"):
        names.nothing.run()


def test_optional_package_that_is_missing_is_named_when_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "tf_slim", None)
    name = OldModule("tf.contrib.slim", "replicate.v1").conv2d
    message = r"slim\.conv2d cannot be used.*pip install tf-slim"
    with pytest.raises(AttributeError, match=message):
        name(1, 2)


def test_other_modules_see_the_real_one(run_source):
    assert run_source("import tensorflow as tf").tf is VIEW
    assert importlib.import_module("tensorflow") is tf is not VIEW
