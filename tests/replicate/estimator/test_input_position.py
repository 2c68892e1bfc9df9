import pytest
import tensorflow as tf

from replicate.estimator.input_position import SCOPE, InputPosition, is_position_key

v1 = tf.compat.v1


class Pipeline:
    """An iterator in a graph of its own, with its position and a session."""

    def __init__(self, dataset_fn):
        with tf.Graph().as_default():
            v1.set_random_seed(1)
            with v1.name_scope(SCOPE):
                self.iterator = v1.data.make_initializable_iterator(dataset_fn())
            self.next = self.iterator.get_next()
            self.position = InputPosition(self.iterator)
            self.saver = v1.train.Saver([self.position.saveable])
            self.session = v1.Session()

    def begin(self, checkpoint=None):
        with self.session.graph.as_default():
            self.session.run(self.iterator.initializer)
            self.position.begin(self.session, checkpoint)
        return self

    def take(self, count):
        return [self.session.run(self.next).tolist() for _ in range(count)]

    def save(self, folder):
        with self.session.graph.as_default():
            return self.saver.save(self.session, f"{folder}/c", write_meta_graph=False)


def shuffled():
    return tf.data.Dataset.range(10).shuffle(10).repeat().batch(4).prefetch(2)


def test_continues_in_the_middle_of_a_shuffled_epoch(tmp_path):
    first = Pipeline(shuffled).begin()
    first.take(3)
    path = first.save(tmp_path)
    second = Pipeline(shuffled).begin(path)
    assert second.take(5) == first.take(5)


def test_a_fresh_start_reads_from_the_beginning():
    assert Pipeline(shuffled).begin().take(3) == Pipeline(shuffled).begin().take(3)


def test_pipeline_whose_state_cannot_be_written_warns_once(caplog):
    def with_python_function():
        return tf.data.Dataset.range(3).map(
            lambda x: tf.numpy_function(lambda y: y + 1, [x], tf.int64)
        )

    pipeline = Pipeline(with_python_function).begin().begin()
    assert not pipeline.position.can_be_saved
    assert caplog.text.count("cannot be saved") == 1
    assert pipeline.take(2) == [1, 2]


def test_checkpoint_without_position_begins_anew_with_a_warning(tmp_path, caplog):
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=1.0)
        session.run(variable.initializer)
        path = v1.train.Saver().save(session, f"{tmp_path}/c")
    assert Pipeline(shuffled).begin(path).take(2) == Pipeline(shuffled).begin().take(2)
    assert caplog.text.count("holds no position") == 1


def test_position_of_another_pipeline_begins_anew_with_a_warning(tmp_path, caplog):
    first = Pipeline(lambda: tf.data.Dataset.range(10).batch(2)).begin()
    first.take(2)
    path = first.save(tmp_path)
    second = Pipeline(shuffled).begin(path)
    assert second.take(2) == Pipeline(shuffled).begin().take(2)
    assert caplog.text.count("does not fit") == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [("input_pipeline/IteratorV2:0_STATE", True), ("w", False), ("input_pipeline/w", False)],
)
def test_is_position_key(key, expected):
    assert is_position_key(key) is expected
