"""Old modules give the names of the table, or absent ones, which can be named but not used.

Functions whose arguments changed take the old ones, in the old order.
"""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat import old_modules
from replicate.compat.absent import OldNameError, absent, is_absent
from replicate.compat.old_modules import OldModule, old_module, with_old_arguments
from replicate.compat.table import PRIVATE, TABLE, Row

v1 = tf.compat.v1
V1 = old_module("tf.estimator", "replicate.v1")
V2 = old_module("tf.estimator", "replicate")
CONTRIB = old_module("tf.contrib", "replicate.v1")


def private(path):
    return old_module(f"{PRIVATE}.{path}", "replicate.v1")


def test_each_api_has_its_defaults():
    assert V1.DNNClassifier is replicate.v1.DNNClassifier
    assert V2.DNNClassifier is replicate.DNNClassifier
    assert V1.experimental.KMeans is replicate.KMeans
    assert private("canned.dnn").DNNClassifier is replicate.v1.DNNClassifier
    assert private("canned.dnn").DNNClassifierV2 is replicate.DNNClassifier
    assert private("api._v2.estimator").DNNClassifier is replicate.DNNClassifier
    assert private("api._v1.estimator").export is V1.export


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("estimator.early_stopping", "no counterpart here"),
        ("tpu.initialize_system", "use_tpu must be False"),
        ("linear_optimizer.SDCAOptimizer", "FtrlOptimizer"),
        ("cudnn_rnn.CudnnRNNTanh", "BasicRNNCell"),
    ],
)
def test_contrib_fails_on_use_of_the_rest(name, advice):
    value = CONTRIB
    for part in name.split("."):
        value = getattr(value, part)
    with pytest.raises(AttributeError, match=rf"tf\.contrib\.{name} cannot be used.*{advice}"):
        value(num_gpus=2)


def test_misspelt_public_name_is_absent_at_once():
    with pytest.raises(
        AttributeError, match=r"'tf.estimator' has no attribute 'Estimatorr'.*Estimator"
    ):
        _ = V1.Estimatorr
    assert not hasattr(V1, "anything_else")


def test_modules_list_their_names():
    assert {"Estimator", "export", "inputs", "tpu"} <= set(dir(V1))
    assert "PredictionKeys" in dir(private("canned.prediction_keys"))


@pytest.mark.parametrize("row", [None, Row("old", "replicate.nowhere.TPUEstimator", "Another.")])
def test_name_without_a_replacement_or_with_one_that_is_not_installed_fails_on_use(
    row, monkeypatch
):
    if row is not None:
        monkeypatch.setattr(old_modules, "row_of", lambda name: row)
    name = OldModule(
        "tf.estimator.tpu" if row else f"{PRIVATE}.head.base_head", "replicate.v1"
    ).Nowhere
    assert is_absent(name)
    with pytest.raises(AttributeError, match=r"\.Nowhere cannot be used"):
        name()


Gone = absent("tf.contrib.parts.Gone", "Use another.")


class Derived(Gone):
    """A class of a program."""


@pytest.mark.parametrize("use", [Gone, Derived, Gone.make, lambda: Gone.deep.deeper(1, a=2)])
def test_absent_names_fail_when_used_with_the_line_and_the_advice(use):
    with pytest.raises(
        OldNameError, match=r"^tf\.contrib\.parts\.Gone.*test_old_modules\.py:\d+.*other"
    ):
        use()


def test_absent_names_are_told_from_others():
    assert not isinstance(3, Gone)
    assert is_absent(Gone.part)
    assert not is_absent(3)
    assert not hasattr(Gone, "__path__")


def test_streaming_metrics_take_predictions_first(graph):
    predictions, labels = np.array([1, 1, 0, 1, 0]), np.array([1, 0, 1, 1, 0])
    weights = np.array([1.0, 1.0, 1.0, 2.0, 1.0], np.float32)
    recall = CONTRIB.metrics.streaming_recall
    by_place = recall(predictions, labels, weights)
    by_name = recall(labels=labels, weights=weights, predictions=predictions)
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run([by_place[1], by_name[1]])
        assert session.run([by_place[0], by_name[0]]) == pytest.approx([3 / 4, 3 / 4])


@pytest.mark.parametrize("old", [row.old for row in TABLE.values() if row.keywords])
def test_new_names_are_parameters_of_the_replacement(old):
    row = TABLE[old]
    function = v1
    for part in row.new.split(".")[1:]:
        function = getattr(function, part)
    for _, new in row.keywords:
        with pytest.raises(TypeError, match="no_such_argument"):
            function(**{new: None, "no_such_argument": None})


def test_old_arguments_are_renamed_and_too_many_are_told():
    function = with_old_arguments(lambda b, a: (a, b), (("old", "a"), ("b", "b")))
    assert function(1, 2) == function(old=1, b=2) == (1, 2)
    with pytest.raises(TypeError, match=r"takes 2 positional arguments, old, b; got 3\."):
        function(1, 2, 3)
