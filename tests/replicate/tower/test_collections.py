"""Collections, plans and seeds of towers."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from model_deploy import device_plan
from replicate.tower.recorded_plan import record_plan, recorded_plan
from replicate.tower.scopes import TowerCollections
from replicate.tower.seeds import step_seed

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


def model_fn(features, labels, mode, params):
    """A linear model whose inputs are dropped at random, by the function in params."""
    weights = v1.get_variable("w", [4, 1], initializer=v1.ones_initializer())
    outputs = tf.matmul(params["dropout"](features), weights)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    features = np.random.RandomState(0).randn(6, 4).astype(np.float32)
    return tf.data.Dataset.from_tensors((features, features[:, :1])).repeat()


def stateless(inputs):
    return tf.nn.experimental.stateless_dropout(inputs, rate=0.5, seed=step_seed(3))


def stateful(inputs):
    return tf.nn.dropout(inputs, rate=0.5, seed=3)


def weights(model_dir, dropout, *steps):
    config = replicate.RunConfig(progress="off")
    estimator = replicate.Estimator(model_fn, str(model_dir), config, {"dropout": dropout})
    for last in steps:
        estimator.train(input_fn, max_steps=last)
    return estimator.get_variable_value("w")


@pytest.mark.parametrize(("dropout", "is_exact"), [(stateless, True), (stateful, False)])
def test_resumed_training_draws_the_same_numbers(tmp_path, dropout, is_exact):
    whole = weights(tmp_path / "whole", dropout, 6)
    parts = weights(tmp_path / "parts", dropout, 2, 6)
    assert (whole == parts).all() == is_exact


def test_seed_differs_between_steps_and_operations(graph):
    step = v1.train.create_global_step()
    seeds = [step_seed(1), step_seed(2)]
    with v1.Session() as session:
        session.run(step.initializer)
        first = session.run(seeds)
        session.run(step.assign_add(1))
        second = session.run(seeds)
    assert len({tuple(seed) for seed in [*first, *second]}) == 4


def test_towers_draw_different_numbers(tmp_path):
    found = []

    def towered(features, labels, mode):
        found.append(step_seed(1))
        weight = v1.get_variable("w", [4, 1])
        loss = tf.reduce_mean(tf.square(features @ weight - labels))
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        devices = ["/cpu:0", "/cpu:1"]
        replicated = replicate.replicate_model_fn(towered, devices=devices)
        replicated(tf.ones([4, 4]), tf.ones([4, 1]), "train")
        with v1.Session() as session:
            session.run(step.initializer)
            seeds = session.run(found)
    assert len({tuple(seed) for seed in seeds}) == 2


@pytest.mark.parametrize("op_seed", [-1, 2**31, 1.5, None])
def test_wrong_op_seed(graph, op_seed):
    v1.train.create_global_step()
    with pytest.raises(ValueError, match="op_seed must be a whole number"):
        step_seed(op_seed)


def test_graph_without_a_step(graph):
    with pytest.raises(ValueError, match="has no global step"):
        step_seed(1)
