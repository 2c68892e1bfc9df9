"""Collections, plans and seeds of towers."""

import pytest
import tensorflow as tf

import replicate
from model_deploy import device_plan
from replicate.tower.recorded_plan import record_plan, recorded_plan
from replicate.tower.scopes import TowerCollections
from replicate.tower.seeds import step_seed

v1 = tf.compat.v1

Keys = v1.GraphKeys


def every_tower():
    return True


def names(key):
    return [entry if isinstance(entry, str) else entry.op.name for entry in v1.get_collection(key)]


@pytest.mark.parametrize("key", [Keys.LOSSES, Keys.UPDATE_OPS])
def test_towers_see_earlier_entries_and_their_own(graph, key):
    v1.add_to_collection(key, "ambient")
    collections = TowerCollections(lambda: True)
    for index in range(3):
        with collections.tower(index):
            assert names(key) == ["ambient"]
            v1.add_to_collection(key, f"tower {index}")
            assert names(key) == ["ambient", f"tower {index}"]
            assert collections.of_tower(key) == [f"tower {index}"]
    assert names(key) == ["ambient", "tower 0", "tower 1", "tower 2"]


@pytest.mark.parametrize(("summaries", "later"), [("first", []), ("all", ["loss1"])])
def test_summaries_are_those_of_the_first_tower_or_of_all(graph, summaries, later):
    v1.summary.scalar("ambient", 0.0)
    collections = TowerCollections(lambda: True, summaries)
    for index in range(2):
        with collections.tower(index):
            v1.summary.scalar(f"loss{index}", 0.0)
            assert names(Keys.SUMMARIES)[0] == "ambient"
            assert names(Keys.SUMMARIES)[-1] == f"loss{index}"
            with collections.outside():
                v1.summary.scalar(f"optimizer{index}", 0.0)
    assert names(Keys.SUMMARIES) == ["ambient", "loss0", "optimizer0", *later, "optimizer1"]


@pytest.mark.parametrize(
    ("regularizes", "seen"),
    [([True, True, True], [8.0, 8.0, 8.0]), ([True, False, False], [8.0, 0.0, 0.0])],
)
def test_regularization_is_seen_by_every_tower_or_by_the_first(graph, regularizes, seen):
    collections = TowerCollections(iter(regularizes).__next__)
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


def test_the_newest_plan_of_a_graph_counts(graph):
    assert recorded_plan(graph) is None
    record_plan(device_plan(["/cpu:0"]))
    newest = device_plan(["/cpu:0", "/cpu:0"])
    record_plan(newest)
    assert recorded_plan(graph) == newest
    with tf.Graph().as_default() as other:
        assert recorded_plan(other) is None


def test_meta_graphs_do_not_hold_the_plan(graph):
    record_plan(device_plan(["/cpu:0"]))
    assert list(v1.train.export_meta_graph(graph=graph).collection_def) == []


def test_seeds_of_a_step_come_again_and_differ_between_steps_operations_and_towers():
    found = []

    def towered(features, mode):
        found.extend([step_seed(1), step_seed(2)])
        return replicate.EstimatorSpec(mode, predictions=features)

    def seeds_of(steps):
        with tf.Graph().as_default():
            step = v1.train.create_global_step()
            found.clear()
            replicate.replicate_model_fn(towered, devices=["/cpu:0", "/cpu:1"])(
                tf.ones([4, 4]), None, "infer"
            )
            with v1.Session() as session:
                session.run(step.assign(steps[0]))
                seeds = []
                for _ in steps:
                    seeds.append([tuple(seed) for seed in session.run(found)])
                    session.run(step.assign_add(1))
                return seeds

    first, second = seeds_of([7, 8])
    assert seeds_of([8]) == [second]
    assert len({*first, *second}) == 8


def test_wrong_op_seeds_and_graphs_without_a_step_are_refused(graph):
    with pytest.raises(ValueError, match="has no global step"):
        step_seed(1)
    v1.train.create_global_step()
    for op_seed in (-1, 2**31, 1.5):
        with pytest.raises(ValueError, match="op_seed must be a whole number"):
            step_seed(op_seed)
