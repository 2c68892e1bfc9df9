import pytest
import tensorflow as tf

from replicate.estimator.iterator_release import release_iterators

v1 = tf.compat.v1


@pytest.fixture
def session(graph):
    with v1.Session() as made:
        yield made


def test_all_iterators_are_empty_afterwards(graph, session):
    numbers = tf.data.Dataset.range(9).map(lambda x: {"x": x, "y": tf.sparse.eye(2)})
    words = tf.data.Dataset.from_tensors("word").repeat()
    iterators = [v1.data.make_initializable_iterator(each) for each in (numbers, words)]
    elements = [iterator.get_next() for iterator in iterators]
    release = release_iterators()
    session.run([iterator.initializer for iterator in iterators])
    assert session.run(elements[0]["x"]) == 0
    assert session.run(elements[1]) == b"word"
    session.run(release)
    for element in (elements[0]["x"], elements[1]):
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_pipeline_is_not_read(graph, session):
    read = []

    def generate():
        read.append(1)
        yield 1.0

    made = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.float32))
    iterator = v1.data.make_initializable_iterator(made)
    session.run(release_iterators())
    assert read == []
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(iterator.get_next())


def test_release_is_on_the_device_of_the_iterator(graph):
    with v1.device("/job:worker/task:1/cpu:0"):
        v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
    before = set(graph.get_operations())
    with v1.device("/job:ps/task:0/cpu:0"):
        release_iterators()
    added = [op for op in graph.get_operations() if op not in before and op.type != "NoOp"]
    assert {op.device for op in added} == {"/job:worker/task:1/device:CPU:0"}
    assert {op.type for op in added} == {"Const", "TakeDataset", "MakeIterator"}


def test_graph_without_iterators_has_nothing_to_release(graph, session):
    session.run(release_iterators())
