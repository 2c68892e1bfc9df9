import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.heads.classes import (
    checked_thresholds,
    chosen_classes,
    class_signatures,
    threshold_metrics,
)
from replicate.canned.heads.task import Examples
from replicate.canned.heads.vocabulary import Vocabulary


def test_class_with_the_largest_logit_is_chosen():
    logits = tf.constant([[1.0, 3.0, 2.0], [0.0, 0.0, -1.0]])
    chosen = chosen_classes(logits, Vocabulary(3, ("a", "b", "c")))
    assert {key: value.dtype.name for key, value in chosen.items()} == {
        "class_ids": "int64",
        "classes": "string",
        "all_class_ids": "int32",
        "all_classes": "string",
    }
    assert chosen["class_ids"].numpy().tolist() == [[1], [0]]
    assert chosen["classes"].numpy().tolist() == [[b"b"], [b"a"]]
    assert chosen["all_class_ids"].numpy().tolist() == [[0, 1, 2]] * 2
    assert chosen["all_classes"].numpy().tolist() == [[b"a", b"b", b"c"]] * 2


def test_signatures_of_a_classifier(graph):
    probabilities, names = tf.ones([2, 3]) / 3, tf.constant([["a", "b", "c"]] * 2)
    outputs = class_signatures({"probabilities": probabilities}, names)
    assert list(outputs) == ["serving_default", "classification", "predict"]
    assert outputs["classification"].scores is probabilities
    assert outputs["classification"].classes is names
    assert outputs["predict"].outputs == {"probabilities": probabilities}


def test_thresholds_are_probabilities():
    assert checked_thresholds(None, "Head") == ()
    assert checked_thresholds(iter([0.25, 0.5]), "Head") == (0.25, 0.5)
    for wrong in (0, 1.0, -0.5, float("nan")):
        with pytest.raises(ValueError, match=r"make Head: thresholds must be in \(0, 1\), got"):
            checked_thresholds([0.5, wrong], "Head")


def test_metrics_at_thresholds():
    examples = Examples(np.float32([1, 0, 1]), {"p": np.float32([0.9, 0.8, 0.3])}, None)
    found = {
        each.key: float(each.measure.result(*each.measure.sums(*each.values(examples), 1.0)))
        for each in threshold_metrics([0.5, 0.85], "p")
    }
    assert found == pytest.approx(
        {
            "accuracy/positive_threshold_0.5": 1 / 3,
            "precision/positive_threshold_0.5": 0.5,
            "recall/positive_threshold_0.5": 0.5,
            "accuracy/positive_threshold_0.85": 2 / 3,
            "precision/positive_threshold_0.85": 1,
            "recall/positive_threshold_0.85": 0.5,
        }
    )
