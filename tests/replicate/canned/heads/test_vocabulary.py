"""Classes: their names, vocabularies, and the heads that tf.contrib had."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import (
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)
from replicate.canned.heads.classes import (
    checked_thresholds,
    chosen_classes,
    class_signatures,
    threshold_metrics,
)
from replicate.canned.heads.task import Examples
from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
UNKNOWN = (
    r"^Cannot compute the loss of Head: labels must be names of label_vocabulary, \['no', 'grün'\]"
    r'\. .*Received unknown_labels: \["may be" "größer"\]\.$'
)
PAIRS = {
    binary_classification_head: replicate.BinaryClassHead,
    logistic_regression_head: replicate.LogisticRegressionHead,
    multi_class_head: replicate.MultiClassHead,
    multi_head: replicate.MultiHead,
    multi_label_head: replicate.MultiLabelHead,
    poisson_regression_head: replicate.PoissonRegressionHead,
    regression_head: replicate.RegressionHead,
}
DIFFERENT_ORDER = (poisson_regression_head, regression_head)


def test_names_and_ids():
    vocabulary = make_vocabulary(3, ["cat", b"dog", "eel"], "Head")
    labels = tf.constant([["eel"], ["cat"], ["cat"]])
    assert vocabulary.ids(labels, "Head").numpy().tolist() == [[2], [0], [0]]
    assert vocabulary.names_of(tf.constant([[1], [2]])).numpy().tolist() == [[b"dog"], [b"eel"]]
    assert vocabulary.all_names(tf.zeros([2, 5])).numpy().tolist() == [[b"cat", b"dog", b"eel"]] * 2


def test_ids_are_their_own_names():
    vocabulary = make_vocabulary(2, None, "Head")
    assert vocabulary.names_of(tf.constant([1, 0])).numpy().tolist() == [b"1", b"0"]
    assert vocabulary.all_names(tf.zeros([1, 2])).numpy().tolist() == [[b"0", b"1"]]
    ids = vocabulary.all_ids(tf.zeros([2, 4, 2]))
    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [[0, 1], [0, 1]]


def test_each_graph_has_its_own_table():
    vocabulary = Vocabulary(2, ("no", "yes"))
    for _ in range(2):
        with tf.Graph().as_default(), v1.Session() as session:
            ids = vocabulary.ids(tf.constant(["yes"]), "Head")
            session.run(v1.tables_initializer())
            assert session.run(ids).tolist() == [1]


def test_labels_that_are_not_in_the_vocabulary_are_named():
    labels = tf.constant(["no", "may be", "größer", "may be"])
    with pytest.raises(ValueError, match=UNKNOWN):
        Vocabulary(2, ("no", "grün")).ids(labels, "Head")


@pytest.mark.parametrize("shape", [[4], None])
def test_labels_that_are_not_in_the_vocabulary_are_named_in_a_graph(graph, shape):
    labels = v1.placeholder(tf.string, shape)
    ids = Vocabulary(2, ("no", "grün")).ids(labels, "Head")
    with v1.Session() as session:
        session.run(v1.tables_initializer())
        with pytest.raises(ValueError, match=UNKNOWN), user_errors():
            session.run(ids, {labels: ["no", "may be", "größer", "may be"]})
        assert session.run(ids, {labels: ["no", "grün", "no", "no"]}).tolist() == [0, 1, 0, 0]


def test_error_lists_some_names_of_a_large_vocabulary():
    with pytest.raises(ValueError, match=r"'7'\] and 992 more\. Correct the labels in input_fn"):
        Vocabulary(1000, tuple(map(str, range(1000)))).ids(tf.constant(["x"]), "Head")


@pytest.mark.parametrize("names", ["ab", {"a", "b"}, [1, 2]])
def test_names_must_be_a_list_of_strings(names):
    with pytest.raises(ValueError, match="make Head: label_vocabulary must be a list or tuple of"):
        make_vocabulary(2, names, "Head")


def test_each_class_needs_one_name():
    with pytest.raises(ValueError, match="label_vocabulary has 1 names, but there are 2 classes"):
        make_vocabulary(2, ["a"], "Head")
    with pytest.raises(ValueError, match=r"\['a', 'a'\] names two classes alike"):
        make_vocabulary(2, ["a", "a"], "Head")


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


@pytest.mark.parametrize("function", PAIRS, ids=lambda function: function.__name__)
def test_parameters_are_those_of_the_class(function):
    ours, theirs = (
        [(each.name, each.default) for each in inspect.signature(made).parameters.values()]
        for made in (function, PAIRS[function])
    )
    if function in DIFFERENT_ORDER:
        assert [name for name, _ in ours[:2]] == ["weight_column", "label_dimension"]
        ours[:2] = reversed(ours[:2])
    assert ours == theirs


def test_arguments_reach_the_heads():
    heads = [
        binary_classification_head("w", [0.5], ["no", "yes"], "sum", None, "b"),
        multi_class_head(3, "w", ["a", "b", "c"], "sum", None, "c"),
        multi_label_head(4, "w", [0.25], list("abcd"), "sum", None, ["a"], "l"),
        regression_head("w", 2, "sum", None, None, "r"),
        poisson_regression_head("w", 5, "sum", False, "p"),
        logistic_regression_head("w", "sum", "g"),
    ]
    together = multi_head(heads, [1, 2, 3, 4, 5, 6])
    assert together.name == "b_c_l_r_p_g"
    assert together.logits_dimension == 1 + 3 + 4 + 2 + 5 + 1
    assert together.loss_reduction == "sum"
    assert "accuracy/positive_threshold_0.5/b" in together.metrics()
    assert "auc/a/l" in together.metrics()
    with pytest.raises(KeyError, match="weight_column 'w'"):
        heads[3].loss([[1.0, 2.0]], [[1.0, 2.0]], {})
