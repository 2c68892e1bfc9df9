import pytest
import tensorflow as tf

from replicate.canned.heads.vocabulary import Vocabulary, make_vocabulary

v1 = tf.compat.v1


def test_names_and_ids():
    vocabulary = make_vocabulary(3, ["cat", b"dog", "eel"], "Head")
    labels = tf.constant([["eel"], ["cat"], ["fox"]])
    assert vocabulary.ids(labels).numpy().tolist() == [[2], [0], [-1]]
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
            ids = vocabulary.ids(tf.constant(["yes"]))
            session.run(v1.tables_initializer())
            assert session.run(ids).tolist() == [1]


@pytest.mark.parametrize("names", ["ab", {"a", "b"}, [1, 2]])
def test_names_must_be_a_list_of_strings(names):
    with pytest.raises(ValueError, match="make Head: label_vocabulary must be a list or tuple of"):
        make_vocabulary(2, names, "Head")


def test_each_class_needs_one_name():
    with pytest.raises(ValueError, match="label_vocabulary has 1 names, but there are 2 classes"):
        make_vocabulary(2, ["a"], "Head")
    with pytest.raises(ValueError, match=r"\['a', 'a'\] names two classes alike"):
        make_vocabulary(2, ["a", "a"], "Head")
