import json

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.pipeline_record import (
    PipelineRecord,
    describe_difference,
    record_pipeline,
)

v1 = tf.compat.v1

Dataset = tf.data.Dataset


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
