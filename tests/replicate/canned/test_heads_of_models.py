"""Heads of canned models: the chosen one, records for it, functions of logits."""

import dataclasses

import pytest
import tensorflow as tf

from replicate import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.head_choice import classifier_head, regressor_head
from replicate.canned.logit_fns import call_logit_fn
from replicate.canned.model_record import Layer, ModelRecord
from replicate.spec import ModeKeys


def test_two_classes_have_a_binary_head():
    head = classifier_head(2, "w", ["a", "b"], "sum")
    assert isinstance(head, BinaryClassHead)
    assert (head.logits_dimension, head.loss_reduction) == (1, "sum")


def test_more_classes_have_a_multi_class_head():
    head = classifier_head(3, None, None, "sum_over_batch_size")
    assert isinstance(head, MultiClassHead)
    assert head.logits_dimension == 3


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="n_classes"):
        classifier_head(1, None, None, "sum")


def test_regressor_predicts_numbers():
    head = regressor_head(4, None, "sum")
    assert isinstance(head, RegressionHead)
    assert (head.logits_dimension, head.loss_reduction) == (4, "sum")


def test_records_are_frozen():
    layer = Layer("dense", "kernel", None, "inputs", "outputs")
    record = ModelRecord((), (layer,), ("kernel",), "sum", "Head")
    for each in (layer, record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            each.variables = ()


def call(logit_fn):
    return call_logit_fn(logit_fn, {"x": 1}, ModeKeys.EVAL, {"rate": 2}, "config")


def test_function_gets_what_it_names(graph):
    logits, given = tf.constant(1.0), {}

    def all_of_them(features, mode, params, config):
        given.update(features=features, mode=mode, params=params, config=config)
        return logits

    assert call(all_of_them) is logits
    assert given == {
        "features": {"x": 1},
        "mode": ModeKeys.EVAL,
        "params": {"rate": 2},
        "config": "config",
    }
    assert call(lambda features: logits) is logits
    assert call(lambda mode, features: {"head": logits}) == {"head": logits}


@pytest.mark.parametrize("result", [1.0, None, {"head": 2}])
def test_other_results_are_refused(result):
    with pytest.raises(ValueError, match="logit_fn '<lambda>' must return a Tensor of logits"):
        call(lambda features: result)
