"""Input of one of several workers."""

import pytest
import tensorflow as tf

import replicate
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.input import attach_group, evaluated_share, with_batches_after_the_end

v1 = tf.compat.v1


def elements(dataset, count):
    following = v1.data.make_one_shot_iterator(dataset).get_next()
    with v1.Session() as session:
        return [session.run(following) for _ in range(count)]


def test_a_worker_gets_its_share():
    with tf.Graph().as_default():
        attach_group(WorkerGroup(["chief 0", "worker 0", "worker 1"], 1, replicate.AllReduce()))
        assert elements(replicate.worker_share(tf.data.Dataset.range(10)), 3) == [1, 4, 7]


def test_a_process_alone_gets_everything():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
        assert replicate.worker_share(dataset) is dataset


def test_only_datasets_have_shares():
    with pytest.raises(TypeError, match=r"worker_share takes a tf.data.Dataset, got \[1, 2\]"):
        replicate.worker_share([1, 2])


def test_after_the_end_the_first_batch_comes_without_weight():
    with tf.Graph().as_default():
        dataset = with_batches_after_the_end(tf.data.Dataset.range(7, 9))
        found = elements(dataset, 5)
    assert found == [(True, 7), (True, 8), (False, 7), (False, 7), (False, 7)]


def test_a_worker_evaluates_every_batch_of_its_share_and_else_every_nth():
    group = WorkerGroup(["chief 0", "worker 0"], 1, replicate.AllReduce())
    for share, expected in ((lambda dataset: dataset, [1, 3]), (replicate.worker_share, [1, 3])):
        with tf.Graph().as_default():
            attach_group(group)
            batches = evaluated_share(share(tf.data.Dataset.range(4)), group)
            assert elements(batches, 2) == expected
