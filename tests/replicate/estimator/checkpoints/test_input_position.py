"""The position in the input: kept in files beside a checkpoint, and found again."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.checkpoints.input_position import InputPosition, is_position_key
from replicate.estimator.checkpoints.pipeline_record import (
    PipelineRecord,
    RecordedOp,
    describe_difference,
    record_pipeline,
)
from replicate.estimator.checkpoints.position_file import (
    SavedPosition,
    read_position,
    remove_position,
    write_position,
)

v1 = tf.compat.v1
CHECKS = ("crc32", "checkpoint")
RECORD = PipelineRecord("int64", (RecordedOp("RangeDataset", {"stop": "10"}),))
POSITION = SavedPosition(7, 3, 2**61 + 1, RECORD, b"a\nb\x00")

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


def test_written_position_is_read(tmp_path):
    checkpoint = f"{tmp_path}/model.ckpt-7"
    assert read_position(checkpoint) is None
    write_position(checkpoint, SavedPosition(1, 0, None, RECORD))
    write_position(checkpoint, POSITION)
    assert read_position(checkpoint) == POSITION
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-7.input_position"]


def test_position_is_removed_once_or_twice(tmp_path):
    write_position(f"{tmp_path}/c", POSITION)
    remove_position(f"{tmp_path}/c")
    remove_position(f"{tmp_path}/c")
    assert read_position(f"{tmp_path}/c") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-1] + b"?",
        lambda content: b"garbage",
        lambda content: b"[]\n",
        lambda content: content.replace(b'"format": 1', b'"format": 2'),
        lambda content: content.replace(b'"elements": 7', b'"elements": 9'),
    ],
)
def test_damaged_file_is_an_error(tmp_path, damage):
    write_position(f"{tmp_path}/c", POSITION)
    path = tmp_path / "c.input_position"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is damaged, or"):
        read_position(f"{tmp_path}/c")


def without_checks(path):
    """Rewrites a file as version 0.2.0 did; returns its numbers and the rest of it."""
    line, _, rest = path.read_bytes().partition(b"\n")
    numbers = {name: v for name, v in json.loads(line).items() if name not in CHECKS}
    path.write_bytes(json.dumps(numbers).encode() + b"\n" + rest)
    return numbers, rest


def test_file_of_the_first_release_is_read(tmp_path):
    write_position(f"{tmp_path}/c", POSITION)
    without_checks(tmp_path / "c.input_position")
    assert read_position(f"{tmp_path}/c") == POSITION


@pytest.mark.parametrize("elements", [-1, 2, 2**63, 10**400, "7", None])
def test_impossible_number_of_elements_is_an_error(tmp_path, elements):
    write_position(f"{tmp_path}/c", POSITION)
    path = tmp_path / "c.input_position"
    numbers, rest = without_checks(path)
    path.write_bytes(json.dumps({**numbers, "elements": elements}).encode() + b"\n" + rest)
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is damaged, or"):
        read_position(f"{tmp_path}/c")


@pytest.mark.parametrize("put", [Path.mkdir, lambda path: path.symlink_to(path.name)])
def test_directory_and_circle_of_links_are_errors(tmp_path, put):
    put(tmp_path / "c.input_position")
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is no file"):
        read_position(f"{tmp_path}/c")


def test_position_of_another_checkpoint_is_an_error(tmp_path):
    write_position(f"{tmp_path}/c-1", POSITION)
    (tmp_path / "c-1.input_position").rename(tmp_path / "c-2.input_position")
    with pytest.raises(ValueError, match=r"Cannot read .*c-2\.input_position.*belongs to c-1"):
        read_position(f"{tmp_path}/c-2")


def record(dataset_fn, ops_before=0):
    """Records a dataset of a graph of its own."""
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        for _ in range(ops_before):
            v1.no_op()
        return record_pipeline(dataset_fn())


def pipeline(batch=32, seed=5, add=1, drop=False):
    numbers = Dataset.range(100).map(lambda x: x + add)
    return numbers.shuffle(50, seed=seed).batch(batch, drop_remainder=drop)


def with_table():
    keys = tf.constant(["a", "b"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, [1, 2]), 0)
    return Dataset.from_tensor_slices(["a", "b"]).map(table.lookup)


def with_function_of_python():
    return Dataset.range(3).map(
        lambda x: tf.numpy_function(lambda y: y, [x], tf.int64, stateful=False)
    )


def nested():
    return Dataset.range(3).interleave(lambda x: Dataset.range(x).map(lambda y: y + 1))


@pytest.mark.parametrize("dataset_fn", [pipeline, with_table, with_function_of_python, nested])
def test_same_pipeline_has_the_same_record(dataset_fn):
    first, second = record(dataset_fn), record(dataset_fn, ops_before=3)
    assert describe_difference(first, second) == ""
    assert PipelineRecord.from_json(json.loads(json.dumps(first.as_json()))) == second


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (lambda: pipeline(batch=64), "batch_size of BatchDatasetV2 32 -> 64"),
        (lambda: pipeline(drop=True), "drop_remainder of BatchDatasetV2 False -> True"),
        (lambda: pipeline(seed=6), r"e of SelectV2 5 -> 6"),
        (lambda: pipeline(add=2), r"f of MapDataset function \w+ -> function \w+"),
        (lambda: pipeline().repeat(), "RepeatDataset was added"),
        (lambda: Dataset.range(100).batch(32), r"MapDataset -> BatchDatasetV2|was removed"),
        (nested, "-> InterleaveDataset"),
    ],
)
def test_difference_is_described(changed, text):
    assert_found(text, describe_difference(record(pipeline), record(changed)))


def assert_found(pattern, text):
    with pytest.raises(AssertionError, match=pattern):
        raise AssertionError(text)


def test_record_depends_on_nested_functions():
    def other():
        return Dataset.range(3).interleave(lambda x: Dataset.range(x).map(lambda y: y + 2))

    assert "InterleaveDataset function" in describe_difference(record(nested), record(other))


def test_record_depends_on_file_names():
    first, second = (
        record(lambda name=name: tf.data.TFRecordDataset([f"{name}/{i}" for i in range(40)]))
        for name in ("day1", "day2")
    )
    assert "string[40]" in describe_difference(first, second)


def test_large_arrays_are_recorded_by_shape_and_not_copied():
    zeros = np.zeros([1 << 18, 2], np.float32)
    made = record(lambda: Dataset.from_tensor_slices(zeros))
    assert made.ops[0].settings["components"] == "float32[262144, 2]"
    assert len(json.dumps(made.as_json())) < 1000


def test_record_depends_on_the_element_spec():
    flat = record(lambda: Dataset.from_tensor_slices((1.0 * np.arange(2), np.arange(2))))
    named = record(lambda: Dataset.from_tensor_slices({"a": 1.0 * np.arange(2), "b": np.arange(2)}))
    assert describe_difference(flat, named).startswith("elements (TensorSpec")
