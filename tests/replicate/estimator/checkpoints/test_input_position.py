"""The position in the input: kept in files beside a checkpoint, and found again."""

import json
import logging
import re

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.checkpoints.input_position import InputPosition, is_position_key
from replicate.estimator.checkpoints.pipeline_record import (
    PipelineRecord,
    RecordedOp,
    describe_difference,
    large_buffers,
    pipeline_ops,
    record_pipeline,
    sizes_to_feed,
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


BROAD = pytest.mark.broad


@pytest.mark.parametrize(
    ("dataset_fn", "limit"),
    [
        (shuffled, 1 << 20),
        (cached, 1 << 20),
        (sparse, 1 << 20),
        (interleaved, 0),
        (sent_ahead, 0),
        pytest.param(interleaved, 1 << 20, marks=BROAD),
        pytest.param(sent_ahead, 1 << 20, marks=BROAD),
        pytest.param(sparse, 0, marks=BROAD),
    ],
)
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


def test_a_share_continues_with_more_or_fewer_workers(tmp_path, caplog):
    def share(workers, rows=2):
        return lambda: Dataset.range(100).shard(workers, 0).map(lambda x: 3 * x).batch(rows)

    whole = Pipeline(share(4)).begin()
    whole.take(3)
    saved = whole.save(tmp_path)
    fewer = Pipeline(share(3, rows=4), is_shared=True).begin(saved)
    np.testing.assert_array_equal(fewer.take(1), [[3 * 3 * x for x in range(12, 16)]])
    assert read_position(fewer.save(tmp_path)).elements == 4
    same = Pipeline(share(3, rows=2), is_shared=True).begin(saved)
    np.testing.assert_array_equal(same.take(1), [[0, 9]])
    assert "What differs: batch_size of BatchDatasetV2 4 -> 2" in caplog.text


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["buffers", "read again"])
def test_random_order_without_a_seed_is_resumed(tmp_path, limit):
    whole = Pipeline(shuffled, seed=None, limit=limit).begin()
    whole.take(3)
    resumed = Pipeline(shuffled, seed=None, limit=limit).begin(whole.save(tmp_path))
    expected = np.concatenate(whole.take(20))
    np.testing.assert_array_equal(np.concatenate(resumed.take(20)), expected)
    other = Pipeline(shuffled, seed=None, limit=limit).begin()
    assert not np.array_equal(np.concatenate(other.take(23)[3:]), expected)


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


def test_elements_are_read_again_if_the_buffers_or_the_whole_position_are_damaged(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    whole = Pipeline(shuffled).begin()
    first = whole.take(3)
    path = whole.save(tmp_path)
    saved = read_position(path)
    write_position(path, type(saved)(3, 0, None, saved.record, b"garbage"))
    assert_equal(Pipeline(shuffled).begin(path).take(2), whole.take(2))
    assert "The saved buffers of the input are not used" in caplog.text
    (tmp_path / "c.input_position").write_bytes(b"short")
    assert_equal(Pipeline(shuffled).begin(path).take(3), first)
    assert caplog.text.count("it is damaged, or another version wrote it") == 1
    assert_equal(Pipeline(shuffled).begin(f"{tmp_path}/absent").take(3), first)
    assert caplog.text.count("it is damaged, or another version wrote it") == 1


def test_written_position_is_read_until_it_is_removed(tmp_path):
    checkpoint = f"{tmp_path}/model.ckpt-7"
    assert read_position(checkpoint) is None
    write_position(checkpoint, SavedPosition(1, 0, None, RECORD))
    write_position(checkpoint, POSITION)
    assert read_position(checkpoint) == POSITION
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-7.input_position"]
    without_checks(tmp_path / "model.ckpt-7.input_position")
    assert read_position(checkpoint) == POSITION, "of the first release"
    for _ in range(2):
        remove_position(checkpoint)
        assert read_position(checkpoint) is None
    assert is_position_key("input_pipeline/IteratorV2:0_STATE")
    assert not is_position_key("input_pipeline/w")


def other_elements(elements):
    """Gives a file of the first release, which has no checks, another number of elements."""

    def damage(path):
        numbers, rest = without_checks(path)
        path.write_bytes(json.dumps({**numbers, "elements": elements}).encode() + b"\n" + rest)

    return damage


def replaced(old, new):
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new))


def put_directory(path):
    path.unlink()
    path.mkdir()


def put_circle_of_links(path):
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
        lambda path: path.write_bytes(b"[]\n"),
        replaced(b'"format": 1', b'"format": 2'),
        replaced(b'"elements": 7', b'"elements": 9'),
        *map(other_elements, [-1, 2, 2**63, 10**400, "7", None]),
        put_directory,
        put_circle_of_links,
    ],
)
def test_damaged_file_is_an_error(tmp_path, damage):
    write_position(f"{tmp_path}/c", POSITION)
    damage(tmp_path / "c.input_position")
    with pytest.raises(ValueError, match=r"c\.input_position: (it is damaged, or|it is no file)"):
        read_position(f"{tmp_path}/c")


def without_checks(path):
    """Rewrites a file as version 0.2.0 did; returns its numbers and the rest of it."""
    line, _, rest = path.read_bytes().partition(b"\n")
    numbers = {name: v for name, v in json.loads(line).items() if name not in CHECKS}
    path.write_bytes(json.dumps(numbers).encode() + b"\n" + rest)
    return numbers, rest


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


def nested(add=1):
    return Dataset.range(3).interleave(lambda x: Dataset.range(x).map(lambda y: y + add))


@pytest.mark.parametrize("dataset_fn", [pipeline, with_table, nested])
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
    ],
)
def test_difference_is_described(changed, text):
    assert re.search(text, describe_difference(record(pipeline), record(changed)))


def test_record_depends_on_nested_functions_file_names_and_the_element_spec():
    def read(folder):
        return tf.data.TFRecordDataset([f"{folder}/{i}" for i in range(40)])

    def rows(kind):
        return Dataset.from_tensor_slices(kind(a=1.0 * np.arange(2), b=np.arange(2)))

    def difference(dataset_fn, first, second):
        before = record(lambda: dataset_fn(first))
        return describe_difference(before, record(lambda: dataset_fn(second)))

    assert "InterleaveDataset function" in difference(nested, 1, 2)
    assert "string[40]" in difference(read, "day1", "day2")
    assert difference(rows, lambda **x: tuple(x.values()), dict).startswith("elements (TensorSpec")


def rows():
    return tf.data.Dataset.from_tensor_slices((np.zeros([8, 25], np.float32), np.zeros([8])))


@pytest.mark.parametrize(
    ("dataset_fn", "expected"),
    [
        (lambda: rows().shuffle(3).batch(4), None),
        (lambda: rows().shuffle(4).batch(4), "ShuffleDataset"),
        (lambda: rows().batch(2).prefetch(5), None),
        (lambda: rows().batch(2, drop_remainder=True).prefetch(5), "PrefetchDataset"),
        (lambda: rows().prefetch(tf.data.AUTOTUNE), None),
        (lambda: rows().cache().batch(4), "CacheDataset"),
        (lambda: rows().cache("file").batch(4), None),
    ],
)
def test_large_buffers(graph, dataset_fn, expected):
    large = large_buffers(pipeline_ops(dataset_fn()), 1000)
    assert [op.type for op in large] == ([] if expected is None else [expected])
    # TensorFlow 2.22 reads these sizes itself, and then refuses to have others fed.
    sizes = [op.inputs[1] for op in large if op.type in ("ShuffleDataset", "PrefetchDataset")]
    assert sizes_to_feed(large) == [size for size in sizes if graph.is_feedable(size)]
