import pytest
import tensorflow as tf

from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1


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


UNKNOWN = (
    r"^Cannot compute the loss of Head: labels must be names of label_vocabulary, \['no', 'grün'\]"
    r'\. .*Received unknown_labels: \["may be" "größer"\]\.$'
)


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
