import logging

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.checkpoints.input_position import InputPosition, is_position_key
from replicate.estimator.checkpoints.position_file import read_position, write_position

v1 = tf.compat.v1

Dataset = tf.data.Dataset


class Pipeline:
    """The input of a graph of its own, with a session."""

    def __init__(self, dataset_fn, seed=1, **settings):
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(seed)
            self.position = InputPosition(dataset_fn(), **settings)
            self.session = v1.Session(graph=graph)
            graph.finalize()

    def begin(self, checkpoint=None):
        self.position.begin(self.session, checkpoint)
        return self

    def take(self, count):
        return [self.session.run(self.position.next) for _ in range(count)]

    def save(self, folder):
        self.position.save(self.session, f"{folder}/c")
        return f"{folder}/c"


def shuffled():
    return Dataset.range(10).shuffle(10).repeat().batch(4).prefetch(2)


def cached():
    return Dataset.range(10).map(lambda x: 3 * x).cache().shuffle(10).repeat().batch(4)


def once():
    return Dataset.range(10).shuffle(10, reshuffle_each_iteration=False).repeat().batch(4)


def interleaved():
    return Dataset.range(4).interleave(lambda x: Dataset.range(x, x + 5)).batch(3)


def sent_ahead():
    return shuffled().apply(replicate.prefetch_to_towers)


def sparse():
    rows = tf.sparse.from_dense(np.arange(1, 13).reshape(6, 2))
    return Dataset.from_tensor_slices(rows).shuffle(6).repeat().batch(4)


def assert_equal(found, expected):
    flat, wanted = (tf.nest.flatten(nest, expand_composites=True) for nest in (found, expected))
    for one, other in zip(flat, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


PIPELINES = [shuffled, cached, once, interleaved, sent_ahead, sparse]


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["buffers", "read again"])
@pytest.mark.parametrize("dataset_fn", PIPELINES)
def test_resumed_input_is_equal_bit_for_bit(tmp_path, caplog, dataset_fn, limit):
    caplog.set_level(logging.INFO)
    whole = Pipeline(dataset_fn, limit=limit).begin()
    whole.take(3)
    first = whole.save(tmp_path)
    reads_again = limit == 0 or dataset_fn is cached
    assert bool(read_position(first).state) is not reads_again
    resumed = Pipeline(dataset_fn, limit=limit).begin(first)
    assert resumed.position.resumed_at == 3
    assert caplog.text.count("The input continues after 3 batches") == 1
    expected = whole.take(2)
    assert_equal(resumed.take(2), expected)
    assert read_position(resumed.save(tmp_path)).elements == 5
    again = Pipeline(dataset_fn, limit=limit).begin(f"{tmp_path}/c")
    assert_equal(again.take(1), whole.take(1))


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["buffers", "read again"])
def test_random_order_without_a_seed_is_resumed(tmp_path, limit):
    whole = Pipeline(shuffled, seed=None, limit=limit).begin()
    whole.take(3)
    resumed = Pipeline(shuffled, seed=None, limit=limit).begin(whole.save(tmp_path))
    expected = np.concatenate(whole.take(20))
    np.testing.assert_array_equal(np.concatenate(resumed.take(20)), expected)
    other = Pipeline(shuffled, seed=None, limit=limit).begin()
    assert not np.array_equal(np.concatenate(other.take(23)[3:]), expected)


def test_given_seeds_are_not_changed():
    def seeded():
        return Dataset.range(10).shuffle(10, seed=5).batch(10)

    with tf.Graph().as_default(), v1.Session() as session:
        expected = session.run(v1.data.make_one_shot_iterator(seeded()).get_next())
    assert_equal(Pipeline(seeded, seed=None).begin().take(1), [expected])


def test_buffers_that_grow_are_no_longer_saved(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    def words():  # Nothing in the graph tells the size of a text.
        return Dataset.range(300).map(tf.strings.as_string).shuffle(300).repeat().batch(2)

    whole = Pipeline(words, limit=57_000).begin()
    assert read_position(whole.save(tmp_path)).state
    whole.take(1)
    assert not read_position(whole.save(tmp_path)).state
    whole.save(tmp_path)
    assert caplog.text.count("checkpoints will hold the number of batches") == 1
    resumed = Pipeline(words, limit=57_000).begin(f"{tmp_path}/c")
    assert_equal(resumed.take(30), whole.take(30))


def test_extra_runs_are_counted(tmp_path):
    pipeline = Pipeline(lambda: Dataset.from_tensor_slices({"a": [1, 2, 3], "b": [4, 5, 6]}))
    pipeline.begin()
    for key in "abb":
        pipeline.session.run(pipeline.position.next[key])
    assert read_position(pipeline.save(tmp_path)).elements == 3


def test_elements_are_read_again_if_tensorflow_refuses_the_buffers(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    whole = Pipeline(shuffled).begin()
    whole.take(3)
    path = whole.save(tmp_path)
    saved = read_position(path)
    write_position(path, type(saved)(3, 0, None, saved.record, b"garbage"))
    assert_equal(Pipeline(shuffled).begin(path).take(2), whole.take(2))
    assert "The saved buffers of the input are not used" in caplog.text


def test_pipeline_whose_state_cannot_be_written_warns_once(tmp_path, caplog):
    def with_python_function():
        return Dataset.range(3).map(lambda x: tf.numpy_function(lambda y: y + 1, [x], tf.int64))

    pipeline = Pipeline(with_python_function).begin().begin()
    assert caplog.text.count("cannot be saved") == 1
    assert pipeline.take(2) == [1, 2]
    assert read_position(pipeline.save(tmp_path)) is None


def test_position_of_another_pipeline_is_ignored_with_a_warning(tmp_path, caplog):
    first = Pipeline(lambda: Dataset.range(10).batch(2)).begin()
    first.take(2)
    second = Pipeline(lambda: Dataset.range(10).batch(3)).begin(first.save(tmp_path))
    assert_equal(second.take(1), [np.arange(3)])
    assert second.position.resumed_at == 0
    assert caplog.text.count("What differs: batch_size of BatchDatasetV2 2 -> 3") == 1


def test_damaged_position_is_ignored_with_a_warning(tmp_path, caplog):
    first = Pipeline(shuffled).begin()
    first.take(2)
    path = first.save(tmp_path)
    (tmp_path / "c.input_position").write_bytes(b"short")
    assert_equal(Pipeline(shuffled).begin(path).take(2), Pipeline(shuffled).begin().take(2))
    assert "it is damaged, or another version wrote it" in caplog.text


def test_input_starts_from_the_beginning_without_a_position(tmp_path, caplog):
    found = Pipeline(shuffled).begin(f"{tmp_path}/c").take(2)
    assert_equal(found, Pipeline(shuffled).begin().take(2))
    assert not caplog.text


@pytest.mark.parametrize(
    ("key", "expected"),
    [("input_pipeline/IteratorV2:0_STATE", True), ("w", False), ("input_pipeline/w", False)],
)
def test_is_position_key(key, expected):
    assert is_position_key(key) is expected
