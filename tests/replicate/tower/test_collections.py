"""Graph collections as each tower sees them."""

import pytest
import tensorflow as tf

from replicate.tower.collections import TowerCollections

v1 = tf.compat.v1
Keys = v1.GraphKeys


def every_tower(index):
    return True


def first_tower(index):
    return index == 0


def names(key):
    return [entry if isinstance(entry, str) else entry.op.name for entry in v1.get_collection(key)]


@pytest.mark.parametrize("key", [Keys.LOSSES, Keys.UPDATE_OPS])
def test_towers_see_earlier_entries_and_their_own(graph, key):
    v1.add_to_collection(key, "ambient")
    collections = TowerCollections(every_tower)
    for index in range(3):
        with collections.tower(index):
            assert names(key) == ["ambient"]
            v1.add_to_collection(key, f"tower {index}")
            assert names(key) == ["ambient", f"tower {index}"]
            assert collections.of_tower(key) == [f"tower {index}"]
    assert names(key) == ["ambient", "tower 0", "tower 1", "tower 2"]


@pytest.mark.parametrize(("summaries", "later"), [("first", 0), ("all", 2)])
def test_summaries_are_those_of_the_first_tower_or_of_all(graph, summaries, later):
    v1.summary.scalar("ambient", 0.0)
    collections = TowerCollections(every_tower, summaries)
    for index in range(3):
        with collections.tower(index):
            v1.summary.scalar("loss", float(index))
            assert len(v1.get_collection(Keys.SUMMARIES)) == 2
    assert names(Keys.SUMMARIES) == ["ambient", "loss", "loss_1", "loss_2"][: 2 + later]


@pytest.mark.parametrize("summaries", ["first", "all"])
def test_summaries_made_outside_of_towers_are_kept_once(graph, summaries):
    collections = TowerCollections(every_tower, summaries)
    for index in range(2):
        with collections.tower(index):
            v1.summary.scalar(f"loss{index}", 0.0)
            with collections.outside():
                v1.summary.scalar(f"optimizer{index}", 0.0)
    expected = ["loss0", "optimizer0", "loss1", "optimizer1"]
    assert names(Keys.SUMMARIES) == [n for n in expected if n != "loss1" or summaries == "all"]


@pytest.mark.parametrize(
    ("regularizes", "seen"), [(every_tower, [8.0, 8.0, 8.0]), (first_tower, [8.0, 0.0, 0.0])]
)
def test_regularization_is_seen_by_every_tower_or_by_the_first(graph, regularizes, seen):
    collections = TowerCollections(regularizes)
    losses = []
    for index in range(3):
        with (
            collections.tower(index),
            v1.variable_scope("net", reuse=index > 0, regularizer=tf.reduce_sum),
        ):
            v1.get_variable("w", [2], tf.float64, tf.constant_initializer(4.0))
            losses.append(v1.losses.get_regularization_loss())
    assert {loss.dtype for loss in losses} == {tf.float64}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(losses) == seen
        assert session.run(v1.get_collection(Keys.REGULARIZATION_LOSSES)) == [8.0]


def test_other_collections_are_shared_but_their_own_part_is_known(graph):
    v1.add_to_collection("mine", "ambient")
    collections = TowerCollections(every_tower)
    for index in range(2):
        with collections.tower(index):
            v1.add_to_collection("mine", f"tower {index}")
            assert collections.of_tower("mine") == [f"tower {index}"]
    assert names("mine") == ["ambient", "tower 0", "tower 1"]


def test_collections_are_whole_again_after_an_error(graph):
    collections = TowerCollections(first_tower)
    with collections.tower(0):
        v1.add_to_collection(Keys.LOSSES, "tower 0")

    def fail():
        with collections.tower(1):
            v1.add_to_collection(Keys.LOSSES, "tower 1")
            raise RuntimeError("in the model")

    with pytest.raises(RuntimeError, match="in the model"):
        fail()
    assert names(Keys.LOSSES) == ["tower 0", "tower 1"]
