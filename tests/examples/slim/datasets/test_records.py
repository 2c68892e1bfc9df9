"""The order in which files of records are read."""

import pytest

from examples.slim.datasets import factory
from examples.slim.datasets.dataset import Reading


def test_order_does_not_depend_on_threads_but_on_readers(rows, write, tmp_path):
    write.write_tfrecords(tmp_path, *rows, shards=4)
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path))

    def order(readers):
        return write.read(dataset, Reading(training=True, seed=1, num_readers=readers), 27)[1]

    assert order(4) == order(4) != order(1)


@pytest.mark.parametrize("shards", [1, 5])
def test_evaluation_reads_file_after_file(rows, write, tmp_path, shards):
    write.write_tfrecords(tmp_path, *rows, shards=shards)
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path))
    labels = rows[1].tolist()
    in_files = [label for shard in range(shards) for label in labels[shard::shards]]
    assert write.read(dataset, Reading(training=False, num_readers=3))[1] == in_files
