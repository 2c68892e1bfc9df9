"""Heads of classifiers and regressors."""

import pytest

from replicate import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.head_choice import classifier_head, regressor_head


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
