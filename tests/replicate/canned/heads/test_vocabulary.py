"""Classes: their names, vocabularies, and the heads that tf.contrib had."""

import inspect

import pytest
import tensorflow as tf

from replicate import (
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)
from replicate.canned.heads.classes import checked_thresholds
from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
UNKNOWN = (
    r"^Cannot compute the loss of Head: labels must be names of label_vocabulary, \['no', 'grün'\]"
    r'\. .*Received unknown_labels: \["may be" "größer"\]\.$'
)


def test_names_and_ids_of_classes():
    vocabulary = make_vocabulary(3, ["cat", b"dog", "eel"], "Head")
    labels = tf.constant([["eel"], ["cat"], ["cat"]])
    assert vocabulary.ids(labels, "Head").numpy().tolist() == [[2], [0], [0]]
    assert vocabulary.names_of(tf.constant([[1], [2]])).numpy().tolist() == [[b"dog"], [b"eel"]]
    assert vocabulary.all_names(tf.zeros([2, 5])).numpy().tolist() == [[b"cat", b"dog", b"eel"]] * 2
    numbers = make_vocabulary(2, None, "Head")
    assert numbers.names_of(tf.constant([1, 0])).numpy().tolist() == [b"1", b"0"]
    assert numbers.all_names(tf.zeros([1, 2])).numpy().tolist() == [[b"0", b"1"]]
    ids = numbers.all_ids(tf.zeros([2, 4, 2]))
    assert (ids.dtype, ids.numpy().tolist()) == (tf.int32, [[0, 1], [0, 1]])


def test_labels_that_are_not_in_the_vocabulary_are_named():
    labels = tf.constant(["no", "may be", "größer", "may be"])
    with pytest.raises(ValueError, match=UNKNOWN):
        Vocabulary(2, ("no", "grün")).ids(labels, "Head")
    with pytest.raises(ValueError, match=r"'7'\] and 992 more\. Correct the labels in input_fn"):
        Vocabulary(1000, tuple(map(str, range(1000)))).ids(tf.constant(["x"]), "Head")


def test_each_graph_has_its_own_table():
    vocabulary = Vocabulary(2, ("no", "grün"))
    for shape in ([4], None):
        with tf.Graph().as_default(), v1.Session() as session:
            labels = v1.placeholder(tf.string, shape)
            ids = vocabulary.ids(labels, "Head")
            session.run(v1.tables_initializer())
            with pytest.raises(ValueError, match=UNKNOWN), user_errors():
                session.run(ids, {labels: ["no", "may be", "größer", "may be"]})
            assert session.run(ids, {labels: ["no", "grün", "no", "no"]}).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("ab", "make Head: label_vocabulary must be a list or tuple of"),
        ([1, 2], "label_vocabulary must be a list or tuple of"),
        (["a"], "label_vocabulary has 1 names, but there are 2 classes"),
        (["a", "a"], r"\['a', 'a'\] names two classes alike"),
    ],
)
def test_each_class_needs_a_name(names, text):
    with pytest.raises(ValueError, match=text):
        make_vocabulary(2, names, "Head")


def test_thresholds_are_probabilities():
    assert checked_thresholds(None, "Head") == ()
    assert checked_thresholds(iter([0.25, 0.5]), "Head") == (0.25, 0.5)
    for wrong in (0, 1.0, -0.5, float("nan")):
        with pytest.raises(ValueError, match=r"make Head: thresholds must be in \(0, 1\), got"):
            checked_thresholds([0.5, wrong], "Head")


def defaults(made):
    return {each.name: each.default for each in inspect.signature(made).parameters.values()}


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
    functions = [binary_classification_head, multi_class_head, multi_label_head, regression_head]
    functions += [poisson_regression_head, logistic_regression_head, multi_head]
    for function, head in zip(functions, [*heads, together], strict=True):
        assert defaults(function) == defaults(type(head))
