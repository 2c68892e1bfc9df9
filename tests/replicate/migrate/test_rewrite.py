"""Old names become new ones, and all other text stays."""

import textwrap

import pytest

from replicate.compat.absent import OldNameError
from replicate.migrate import tensorflow_names
from replicate.migrate.rewrite import changes_of, keyword_edits
from replicate.migrate.source import Source
from replicate.migrate.uses import Module


def rewritten(text, towers=False):
    """Returns the new text, and what is left as pairs of name and advice."""
    module = Module(textwrap.dedent(text).lstrip("\n"))
    changes = changes_of(module, towers)
    new = module.source.edited(changes.edits)
    again = Module(new)
    assert again.source.edited(changes_of(again, towers).edits) == new
    compile(new, "new", "exec")
    return new, [(each.old, each.advice) for each in changes.left]


def check(changes):
    """Compares with lines that go, marked by "-", lines that come, by "+", and those that stay."""
    lines = textwrap.dedent(changes).strip("\n").split("\n")
    before, after = (
        "".join(f"{line[2:]}\n" for line in lines if line[:1] != mark) for mark in "+-"
    )
    assert rewritten(before) == (after, [])


CHANGES = {
    "names_in_an_expression_change_and_nothing_else_does": """
      # -*- coding: utf-8 -*-
    - import  tensorflow as tf   # the framework
    + import tensorflow.compat.v1 as tf   # the framework
    + import replicate
      def model_fn( features,mode ):
          '''tf.estimator.ModeKeys stays in a string.'''   # So does tf.estimator.RunConfig.
    -     if mode==tf.estimator.ModeKeys.PREDICT :
    -         return tf.estimator . EstimatorSpec(
    +     if mode==replicate.ModeKeys.PREDICT :
    +         return replicate.EstimatorSpec(
                  mode ,predictions = {"é":features} )
    """,
    "defaults_of_tensorflow_1_are_kept": """
    - import tensorflow as tf
    - a = tf.estimator.DNNClassifier([4], [])
    - b = tf.compat.v1.estimator.LinearRegressor([])
    - c = tf.compat.v2.estimator.LinearRegressor([])
    - d = tf.contrib.estimator.multi_label_head(3)
    - e = tf.estimator.DNNEstimator(d, [4], [])
    + import tensorflow.compat.v1 as tf
    + import replicate
    + a = replicate.v1.DNNClassifier([4], [])
    + b = replicate.v1.LinearRegressor([])
    + c = replicate.LinearRegressor([])
    + d = replicate.v1.multi_label_head(3)
    + e = replicate.DNNEstimator(d, [4], [])
    """,
    "names_that_tensorflow_still_has_change_where_it_matters": """
    - import tensorflow as tf
    + import tensorflow.compat.v1 as tf
    + from replicate.compat.old_tensorflow import scopes, shapes, messages
      from tensorflow.python.ops import array_ops
    - from tensorflow.python.training import training_ops
    + from replicate.compat.old_tensorflow import kernels as training_ops
      with tf.name_scope("a"):
    -     with tf.name_scope("a", [x]):
    -         x = tf.nn.conv2d_transpose(x, w, s, [1])
    - y = tf.train.Int64List(value=tf.keras.layers.Dense(2).apply(x))
    - z = array_ops.stack([x]), array_ops.reshape(x, s), training_ops.apply_adam
    +     with scopes.name_scope("a", [x]):
    +         x = shapes.conv2d_transpose(x, w, s, [1])
    + y = messages.Int64List(value=tf.keras.layers.Dense(2)(x))
    + z = tf.stack([x]), array_ops.reshape(x, s), training_ops.apply_adam
    """,
    "package_becomes_an_import_unless_all_its_uses_are_rewritten": """
    - from tensorflow.contrib import opt, factorization as fc
    + import replicate

    - import tensorflow as tf
    + import tensorflow.compat.v1 as tf

    - slim = tf.contrib.slim
    - tfe = tf.estimator
    + from replicate.compat.contrib import slim
    + from replicate import v1 as tfe
      nn = tf.nn
    - data = tf.contrib.data


      def f(x, mode=tfe.ModeKeys.TRAIN):
          return slim.conv2d(x, 3)
    - x = data.AUTOTUNE
    - y = opt.ModelAverageOptimizer, fc.KMeansClustering
    + x = tf.data.experimental.AUTOTUNE
    + y = replicate.ModelAverageOptimizer, replicate.KMeansClustering
    """,
    "arguments_in_another_order_become_keywords": """
    - import tensorflow as tf
    - from tensorflow.contrib.metrics import streaming_auc
    - from tensorflow.contrib import framework
    - x = tf.contrib.metrics.streaming_recall(p, l, weights=w)
    - y = streaming_auc(p, labels=l)
    - z = framework.load_variable(checkpoint_dir=d, name="a")
    + import tensorflow.compat.v1 as tf
    + from tensorflow.compat.v1.metrics import auc as streaming_auc
    + x = tf.metrics.recall(predictions=p, labels=l, weights=w)
    + y = streaming_auc(predictions=p, labels=l)
    + z = tf.train.load_variable(ckpt_dir_or_file=d, name="a")
    """,
    "imports_in_functions_and_blocks_stay_there": """
      def f():
    -     import tensorflow as tf
    -     return tf.estimator.RunConfig, tf.contrib.tpu.RunConfig
    +     import tensorflow.compat.v1 as tf
    +     import replicate
    +     return replicate.RunConfig, replicate.tpu.RunConfig

      try:
    -     import tensorflow.contrib.slim as slim
    +     from replicate.compat.contrib import slim
      except ImportError:
          import tf_slim as slim

      def g(x):
    -     from tensorflow.contrib import data
          return slim.flatten(x)

      def h(tf):
          return tf.estimator.RunConfig

      if x:
    -     from tensorflow.contrib import data
    +     pass
    """,
    "names_that_libraries_lost_are_written_and_calls_of_today_stay": """
      import time
      import xml.etree.ElementTree as ElementTree
    - import xml.etree.cElementTree as tree
    - import pkg_resources
    - from collections import Mapping, OrderedDict
    - from scipy.misc import imread
    - from distutils.version import LooseVersion
    + from xml.etree import ElementTree as tree
    + from replicate.compat.old_libraries import packages as pkg_resources
    + from collections.abc import Mapping
    + from collections import OrderedDict
    + from replicate.compat.old_libraries.images import imread
    + from replicate.compat.old_libraries.versions import LooseVersion
      import numpy as np
    + from replicate.compat.old_libraries import arrays, files
      import yaml
      def load(path, array):
    -     start = time.clock(), np.product([1, 2])
    -     kinds = np.float, np.int32, np.NINF
    -     raw = np.fromstring(array.tostring(), np.uint8)
    +     start = time.process_time(), np.prod([1, 2])
    +     kinds = float, np.int32, arrays.NINF
    +     raw = arrays.fromstring(array.tobytes(), np.uint8)
          numbers = np.fromstring("1 2", sep=" "), np.array([1]), np.array(array, float)
    -     rows = np.array(array), [k for k, v in path.iteritems()], path.iterkeys()
    +     rows = arrays.array(array), [k for k, v in path.items()], iter(path.keys())
    -     total = np.sum(number for number in numbers), np.sum(numbers)
    +     total = arrays.sum_of(number for number in numbers), np.sum(numbers)
    -     settings = yaml.load(path), yaml.load(path, Loader=yaml.SafeLoader)
    +     settings = files.yaml_load(path), yaml.load(path, Loader=yaml.SafeLoader)
          return pkg_resources.get_distribution("numpy"), tree.tostring(array)
    """,
}
"""Lines that go, marked by "-", lines that come, by "+", and those that stay, by what they show."""


@pytest.mark.parametrize("what", CHANGES)
def test_changes(what):
    check(CHANGES[what])


IMPORTS = [
    ("from tensorflow import estimator", "estimator.RunConfig"),
    ("from replicate import v1 as estimator", "estimator.RunConfig"),
    ("import tensorflow.estimator as est", "est.RunConfig"),
    ("from replicate import v1 as est", "est.RunConfig"),
    ("from tensorflow.contrib.training import HParams as H", "H(a=1)"),
    ("from replicate.compat.contrib.training import HParams as H", "H(a=1)"),
    ("from tensorflow.contrib.estimator import TowerOptimizer", "TowerOptimizer(o)"),
    ("from replicate import TowerOptimizer", "TowerOptimizer(o)"),
    ("from tensorflow.python.estimator.canned import prediction_keys as k", "k.PredictionKeys"),
    ("from replicate.compat.private_names import PredictionKeys", "PredictionKeys"),
    ("from tensorflow_estimator.python.estimator import estimator as lib", "lib.Estimator"),
    ("from replicate import v1 as lib", "lib.Estimator"),
    ("from tensorflow import flags, gfile", "gfile.Exists"),
    ("from tensorflow.compat.v1 import flags, gfile", "gfile.Exists"),
    ("import tensorflow.nn as nn", "nn.relu"),
    ("from tensorflow.compat.v1 import nn", "nn.relu"),
    ("import tensorflow", "tensorflow.estimator.RunConfig"),
    ("import tensorflow.compat.v1 as tensorflow\nimport replicate", "replicate.RunConfig"),
    ("import numpy as np, tensorflow as tf", "tf.nn.relu"),
    ("import numpy as np\nimport tensorflow.compat.v1 as tf", "tf.nn.relu"),
    ("from tensorflow.contrib.kfac.python.ops import optimizer as o", "o.KfacOptimizer"),
    ("from kfac import optimizer as o", "o.KfacOptimizer"),
    ("from tensorflow.python.layers import core as layers_core", "layers_core.Dense(2)"),
    ("from replicate.compat import layers as layers_core", "layers_core.Dense(2)"),
    ("import tensorflow.layers as l", "l.dense(x, 2)"),
    ("from replicate.compat import layers as l", "l.dense(x, 2)"),
    ("from tensorflow.layers import Layer", "Layer()"),
    ("from replicate.compat.layers import Layer", "Layer()"),
    ("import tensorflow as tf", "tf.layers.dense(x, 2), tf.nn.relu"),
    (
        "import tensorflow.compat.v1 as tf\nfrom replicate.compat import layers",
        "layers.dense(x, 2), tf.nn.relu",
    ),
    ("from tensorflow.nn import rnn_cell", "rnn_cell.GRUCell(2)"),
    ("from replicate.compat import cells as rnn_cell", "rnn_cell.GRUCell(2)"),
    ("from tensorflow.contrib.rnn import LSTMCell as Cell", "Cell(2)"),
    ("from replicate.compat.cells import LSTMCell as Cell", "Cell(2)"),
    ("import tensorflow as tf", "tf.nn.rnn_cell.GRUCell(2), tf.nn.relu"),
    (
        "import tensorflow.compat.v1 as tf\nfrom replicate.compat.cells import GRUCell",
        "GRUCell(2), tf.nn.relu",
    ),
    ("from kfac.python.keras import optimizers as o", "o.Kfac()"),
    ("from kfac import keras as o", "o.Kfac()"),
    ("import kfac.python.ops.optimizer", "kfac.python.ops.optimizer.KfacOptimizer"),
    ("import kfac", "kfac.optimizer.KfacOptimizer"),
]
UNCHANGED = [
    ("from tensorflow.python.util import nest", "nest.flatten"),
    ("import tensorflow.compat.v1 as tf", "tf.nn.relu"),
    ("from tensorflow.compat import v1 as tf", "tf.nn.relu"),
    ("from tensorflow.core.framework import graph_pb2", "graph_pb2.GraphDef"),
    ("import kfac", "kfac.KfacOptimizer"),
    ("from . import tensorflow", "tensorflow.contrib.slim"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [*zip(IMPORTS[::2], IMPORTS[1::2], strict=True), *zip(UNCHANGED, UNCHANGED, strict=True)],
)
def test_imports(old, new):
    assert rewritten("{}\nx = {}\n".format(*old)) == ("{}\nx = {}\n".format(*new), [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f(a, b)", "f(predictions=a, targets=b)"),
        ("f(a, b, c)", "f(predictions=a, targets=b, weights=c)"),
        ("f(a, labels = b, name='x')", "f(predictions=a, targets = b, name='x')"),
        ("f(\n  a,  # first\n  b)", "f(\n  predictions=a,  # first\n  targets=b)"),
        ("f()", "f()"),
        ("f(*a)", None),
        ("f(a, **b)", None),
    ],
)
def test_positions_become_keywords(old, new):
    source = Source(old)
    call = source.module.body[0].body[0].value
    keywords = (("predictions", "predictions"), ("labels", "targets"), ("weights", "weights"))
    edits = keyword_edits(source, call, keywords)
    assert (None if edits is None else source.edited(edits)) == new


def test_taken_names_are_not_bound_again_and_imports_that_are_there_are_used():
    check(
        """
          import replicate as r
        - import tensorflow as tf
        + import tensorflow.compat.v1 as tf
        + from replicate.compat import contrib as contrib_
          def f(replicate, contrib=None):
        -     return tf.estimator.RunConfig, tf.contrib.training.HParams
        +     return r.RunConfig, contrib_.training.HParams
          HParams = 3
        """
    )
    new, _ = rewritten("import tensorflow as tf\nreplicate = tf.estimator.RunConfig\n")
    assert new == (
        "import tensorflow.compat.v1 as tf\nimport replicate as replicate_\n"
        "replicate = replicate_.RunConfig\n"
    )


def test_line_ends_and_trailing_comments_stay():
    new, _ = rewritten("import tensorflow as tf  # noqa\r\nx = tf.estimator.RunConfig\r\n")
    assert new == (
        "import tensorflow.compat.v1 as tf  # noqa\r\nimport replicate\r\n"
        "x = replicate.RunConfig\r\n"
    )
    new, _ = rewritten("import tensorflow as tf; x = tf.estimator.RunConfig")
    assert new == "import tensorflow.compat.v1 as tf; import replicate; x = replicate.RunConfig"


@pytest.mark.parametrize(
    ("text", "name", "advice"),
    [
        ("tf.contrib.cudnn_rnn.CudnnRNNTanh(1)", "tf.contrib.cudnn_rnn.CudnnRNNTanh",
         "BasicRNNCell"),
        ("from tensorflow.contrib.bigtable import x", "tf.contrib.bigtable.x", "no counterpart"),
        ("from tensorflow.contrib.slim import *", "from tensorflow.contrib.slim import *",
         "A star"),
        ("tf.estimator.RNNClassifier", "tf.estimator.RNNClassifier", "ready-made estimator is not"),
        ("tf.mul(1, 2)", "tf.mul", "has no tf.compat.v1.mul."),
        ("tf.optimizers.Adam", "tf.optimizers.Adam", "TensorFlow 2 has"),
        ("from tensorflow.python.nonsense import x", "tf.python.nonsense.x",
         "has no tensorflow.python.nonsense.x."),
        ("f(tf.contrib.data)", "tf.contrib.data", "several modules"),
        ("from tensorflow.contrib import data\nf(data)", "tf.contrib.data", "several modules"),
        (
            "from kfac.python.ops import utils\nutils.set_global_constants()",
            "kfac.python.ops.utils.set_global_constants",
            "Use kfac.LayerCollection(config=kfac.CurvatureConfig(…)), whose fields",
        ),
        ("tf.contrib.slim.nonsense", "tf.contrib.slim.nonsense",
         "There is no replicate.compat.contrib.slim.nonsense here."),
        ("tf.contrib.metrics.streaming_recall(*a)", "tf.contrib.metrics.streaming_recall",
         "another order now"),
    ],
)  # fmt: skip
def test_what_cannot_be_rewritten_is_told(text, name, advice):
    _, left = rewritten(f"import tensorflow as tf\n{text}")
    assert [each for each, _ in left] == [name] * len(left)
    assert advice in left[0][1]


def test_name_that_may_be_something_else_is_told_and_stays():
    text = "import tensorflow as tf\nd = tf.contrib.data\nd = f(d)\nd.TFRecordDataset\n"
    new, left = rewritten(text)
    view = "from replicate.compat.tf_contrib import data as d"
    assert new == text.replace("tensorflow", "tensorflow.compat.v1").replace(
        "d = tf.contrib.data", view
    )
    assert left[0][0] == "tf.contrib.data"
    assert left[-1][0] == "tf.contrib.data.TFRecordDataset"
    new = "replicate.compat.contrib.data.TFRecordDataset"
    assert f"bound in several ways here. Write {new}" in left[-1][1]


def test_a_package_with_absent_names_is_the_one_that_the_runner_shows():
    new, left = rewritten(
        "from tensorflow.contrib import rnn as r\nf(lambda: r.nothing())\nr.static_rnn\n"
    )
    assert {name for name, _ in left} == {"tf.contrib.rnn", "tf.contrib.rnn.nothing"}
    assert new.startswith("from replicate.compat.tf_contrib import rnn as r\n")
    found = []
    exec(new, {"f": found.append})
    with pytest.raises(OldNameError, match=r"^tf.contrib.rnn.nothing cannot be used \("):
        found[0]()


def test_names_are_checked_without_loading_tensorflow(monkeypatch):
    def load():
        raise AssertionError("TensorFlow was loaded.")

    monkeypatch.setattr(tensorflow_names, "_tensorflow", load)
    text = (
        "import tensorflow as tf\ntf.flags.DEFINE_bool('a', True, '')\ntf.nn.relu(tf.Session())\n"
        "tf.estimator.DNNClassifier(tf.estimator.ModeKeys)\ntf.contrib.lookup.HashTable(1, 2)\n"
        "from tensorflow.python.ops import array_ops\nimport json, collections\njson.load(1)\n"
        "flags = tf.app.flags\narray_ops.reshape(collections.Mapping)\n"
        "slim = tf.contrib.slim\nslim.conv2d(tf.contrib.layers.layer_norm)\n"
    )
    assert rewritten(text)[1] == []


def test_a_package_in_a_package_is_found_in_its_new_home():
    new, left = rewritten(
        "from tensorflow.contrib import learn\nf(learn.preprocessing.VocabularyProcessor)\n"
        "f(learn.datasets.DATASETS['mnist'])\n"
    )
    found = []
    exec(new, {"f": found.append})
    names = [each.__name__ for each in found]
    assert (names, left) == (["VocabularyProcessor", "load_mnist"], [])
