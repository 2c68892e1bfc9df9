"""The repair of tf-slim: what was broken works, and `undo` takes it back."""

import importlib

import pytest
import tensorflow as tf

from replicate.compat import layers as our_layers
from replicate.compat.contrib.repaired_slim import loading
from replicate.compat.contrib.repaired_slim.batch_norm import batch_norm
from replicate.compat.installation import install, uninstall
from replicate.compat.old_modules import old_module

v1 = tf.compat.v1


@pytest.fixture
def slim():
    yield loading.slim()
    loading.slim()


def test_batch_norm_and_layers_are_ours_wherever_tf_slim_looks_for_them(slim):
    layers = importlib.import_module("tf_slim.layers")
    assert slim.batch_norm is layers.batch_norm is layers.layers.batch_norm is batch_norm
    resnet = importlib.import_module("tf_slim.nets.resnet_v1")
    assert resnet.layers.batch_norm is batch_norm
    made = importlib.import_module("tf_slim.layers.layers")
    assert made.core_layers is made.convolutional_layers is made.pooling_layers is our_layers


def test_moved_names_are_found_and_others_are_real(slim):
    operations = slim.learning.ops
    assert operations.IndexedSlices is tf.IndexedSlices
    assert operations.get_default_graph() is v1.get_default_graph()
    with pytest.raises(AttributeError, match="nothing"):
        _ = operations.nothing
    with pytest.raises(AttributeError, match=r"module 'tf\.contrib\.x' has no attribute 'six'"):
        loading.name_of_slim("six", ("",), "tf.contrib.x")


def test_uninstall_takes_the_repair_back(slim):
    earlier = slim.batch_norm
    install()
    uninstall()
    assert slim.batch_norm is not earlier
    assert not isinstance(slim.learning.ops, loading._Completed)
    assert loading.slim().batch_norm is earlier


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("slim", {"conv2d", "arg_scope", "learning", "nets", "layers", "get_model_variables"}),
        ("layers", {"conv2d", "real_valued_column", "optimize_loss", "l2_regularizer", "python"}),
        ("framework", {"arg_scope", "nest", "get_variables", "deprecated"}),
        ("metrics", {"streaming_accuracy", "set_size", "aggregate_metric_map"}),
        ("losses", {"softmax_cross_entropy", "get_total_loss"}),
        ("training", {"HParams", "train", "evaluate_repeatedly", "byte_size_load_fn"}),
        ("summary", {"scalar", "create_file_writer"}),
    ],
)
def test_packages_list_their_names(package, names, slim):
    module = old_module(f"tf.contrib.{package}", "replicate.v1")
    assert names <= set(dir(module))
    assert not {"six", "ops", "print_function"} & set(dir(module))
    found = {}
    exec("from package import *", {"__builtins__": {"__import__": lambda *_: module}}, found)
    assert names <= set(found)
