"""Shards that are sent to the towers one step ahead."""

import pytest
import tensorflow as tf

from replicate.batch.ahead import batch_and_ahead, prefetch_to_towers
from replicate.batch.split import Splitting, split_batch
from replicate.batch.staging import staged_shards

v1 = tf.compat.v1

TWO = ["/device:CPU:1", "/device:CPU:2"]


class Steps:
    """Steps over the numbers 0, 1, 2, …, four in a batch and two in a shard."""

    def __init__(self, rows=12, splitting=None, devices=TWO):
        dataset = tf.data.Dataset.range(rows).map(lambda row: (row, tf.strings.as_string(row)))
        pairs = v1.data.make_initializable_iterator(prefetch_to_towers(dataset.batch(4)))
        batch, ahead = batch_and_ahead(*pairs.get_next())
        splitting = splitting or Splitting(2)
        self.shards, self.sent = staged_shards(
            batch, ahead, lambda batch: split_batch(*batch, splitting), devices
        )
        self.start = pairs.initializer

    def session(self):
        session = v1.Session()
        session.run([self.start, v1.tables_initializer()])
        return session

    def run(self, session):
        """Takes the numbers of each shard."""
        parts = [(shard.features, shard.labels) for shard in self.shards]
        shards, _ = session.run([parts, self.sent])
        for numbers, texts in shards:
            assert [int(text) for text in texts] == list(numbers)
        return [list(numbers) for numbers, _ in shards]


def sizes(graph):
    return [op.outputs[0] for op in graph.get_operations() if op.type == "StageSize"]


def peek(size):
    """The tensors that an area holds first, given the operation that asks for its size."""
    asked = {name: size.get_attr(name) for name in ("dtypes", "shared_name")}
    with v1.device(size.device):
        return tf.raw_ops.StagePeek(index=0, **asked)


@pytest.fixture
def steps(graph):
    return Steps()


def test_every_batch_is_staged_by_the_step_before_and_taken_once_to_the_end(steps, graph):
    staged = [peek(op) for op in graph.get_operations() if op.type == "StageSize"]
    with steps.session() as session:
        assert session.run(sizes(graph)) == [0, 0]
        assert steps.run(session) == [[0, 1], [2, 3]]
        assert session.run(sizes(graph)) == [1, 1]
        assert [list(tensors[0]) for tensors in session.run(staged)] == [[4, 5], [6, 7]]
        assert steps.run(session) == [[4, 5], [6, 7]]
        assert steps.run(session) == [[8, 9], [10, 11]]
        assert session.run(sizes(graph)) == [0, 0]
        with pytest.raises(tf.errors.OutOfRangeError):
            steps.run(session)


def test_runs_without_training_take_a_batch(steps):
    with steps.session() as session:
        assert steps.run(session)[0] == [0, 1]
        assert list(session.run(steps.shards[1].features)) == [6, 7]
        assert steps.run(session) == [[8, 9], [10, 11]]


def test_a_new_session_begins_with_empty_areas(steps):
    for _ in range(2):
        with steps.session() as session:
            assert steps.run(session) == [[0, 1], [2, 3]]
            session.run([steps.start, v1.tables_initializer()])
            assert steps.run(session) == [[0, 1], [2, 3]]


def test_shards_may_differ_in_size(graph):
    steps = Steps(rows=7, splitting=Splitting(2, uneven="weighted"))
    with steps.session() as session:
        weights = [session.run([steps.shards, steps.sent])[0] for _ in range(2)]
    assert [[float(shard.weight) for shard in step] for step in weights] == [
        [0.5, 0.5],
        [pytest.approx(2 / 3), pytest.approx(1 / 3)],
    ]
    assert [list(shard.features) for shard in weights[1]] == [[4, 5], [6]]


def test_shards_are_on_the_devices_of_their_towers_and_text_on_cpus(graph):
    steps = Steps(devices=["/device:GPU:0", "/job:worker/device:GPU:1"])
    on = [(shard.features.device, shard.labels.device) for shard in steps.shards]
    assert on == [
        ("/device:GPU:0", "/device:CPU:0"),
        ("/job:worker/device:GPU:1", "/job:worker/device:CPU:0"),
    ]
    assert {op.device for op in graph.get_operations() if op.type == "Stage"} == {
        device for both in on for device in both
    }


def test_shapes_are_those_of_the_shards(graph):
    dataset = tf.data.Dataset.range(8).batch(4, drop_remainder=True)
    batch, ahead = batch_and_ahead(
        v1.data.make_one_shot_iterator(prefetch_to_towers(dataset)).get_next(), None
    )
    shards, _ = staged_shards(batch, ahead, lambda batch: split_batch(*batch, Splitting(2)), TWO)
    assert [shard.features.shape for shard in shards] == [[2], [2]]
    assert [(shard.labels, shard.weight) for shard in shards] == [(None, 0.5)] * 2
