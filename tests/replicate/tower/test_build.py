"""The context of a tower and the state of a replicated call."""

import contextlib

import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.tower import build as towers
from replicate.tower.scopes import tower_scopes

v1 = tf.compat.v1

PLAN = device_plan(["/cpu:1", "/cpu:2"])
SETTINGS = towers.TowerSettings(PLAN, averages_loss=True)


def test_current_tower_in_model_fn(graph):
    seen = []
    with tower_scopes(SETTINGS) as scopes:
        for index in range(2):
            with scopes.tower(index, 0.5):
                seen.append(towers.current_tower())
    assert seen == [
        towers.TowerContext(0, 2, "/device:CPU:1"),
        towers.TowerContext(1, 2, "/device:CPU:2"),
    ]
    assert [(tower.is_first, tower.is_last) for tower in seen] == [(True, False), (False, True)]
    assert seen[1].label == "tower 1 (/device:CPU:2)"
    assert towers.current_tower() is None


def test_scaled_loss_is_the_part_of_the_whole_batch(graph, evaluate):
    with tower_scopes(SETTINGS) as scopes, scopes.tower(1, 0.25):
        scaled = scopes.build.part_of_loss(tf.constant(8.0))
        [part] = v1.get_collection(towers.PART_OF_LOSS)
        again = part(tf.constant(8.0))
    assert not v1.get_collection(towers.PART_OF_LOSS)
    assert scaled.op.name == "tower_1/averaged_loss"
    assert scaled.device == "/device:CPU:2"
    assert evaluate([scaled, again]) == [2.0, 2.0]


def test_empty_shard_has_no_part_in_the_loss_and_sums_are_not_scaled(graph, evaluate):
    none, loss = tf.constant(0.0, tf.float64), tf.constant(8.0)
    with tower_scopes(SETTINGS) as scopes, scopes.tower(1, none):
        mean_of_no_rows = scopes.build.part_of_loss(tf.reduce_mean(tf.zeros([0])))
    assert evaluate(mean_of_no_rows) == 0.0
    sums = towers.TowerSettings(PLAN, averages_loss=False)
    alone = towers.TowerSettings(device_plan(["/cpu:0"]), averages_loss=True)
    for settings in (sums, alone):
        with tower_scopes(settings) as scopes, scopes.tower(0, 1.0):
            assert scopes.build.part_of_loss(loss) is loss


def test_outside_towers_leaves_names_device_and_sharing(graph):
    with v1.variable_scope("model"), tower_scopes(SETTINGS) as scopes:
        for index in range(2):
            with scopes.tower(index, 0.5):
                v1.get_variable("w", shape=[])
        with scopes.tower(1, 0.5):
            v1.get_variable("w", shape=[])
            with scopes.build.outside_towers():
                with scopes.build.outside_towers():
                    slot = v1.get_variable("slot", shape=[])
                number = tf.constant(1.0, name="number")
                assert scopes.build.is_outside
            assert not scopes.build.is_outside
    assert slot.op.name == "model/slot"
    assert slot.device == "/device:CPU:0"
    assert number.op.name == "model/number"
    assert not number.device


def test_state_leaves_the_graph_after_an_error_too(graph):
    def build_and_fail():
        with tower_scopes(SETTINGS) as scopes:
            for index in range(2):
                with scopes.tower(index, 0.5):
                    assert towers.current_build() is scopes.build
                    v1.losses.add_loss(tf.constant(1.0))
                    if index:
                        raise RuntimeError("in the model")

    with pytest.raises(RuntimeError, match="in the model"):
        build_and_fail()
    assert towers.current_build() is None
    assert not v1.get_collection(towers.COLLECTION)
    assert len(v1.losses.get_losses()) == 2


TASK = "/job:worker/task:1"


@contextlib.contextmanager
def built_in_a_cluster(towers_of_plan):
    """The first tower of some, in a worker of a cluster with two parameter servers."""
    cluster = {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1"]}
    setter = v1.train.replica_device_setter(cluster=cluster, worker_device=TASK)
    with contextlib.ExitStack() as stack:
        stack.enter_context(v1.device(setter))
        settings = towers.TowerSettings(device_plan(towers_of_plan), True)
        scopes = stack.enter_context(tower_scopes(settings))
        stack.enter_context(scopes.tower(0, 1.0))
        yield scopes


def local(name, use_resource=True):
    keys = [v1.GraphKeys.LOCAL_VARIABLES]
    return v1.get_variable(name, initializer=0.0, collections=keys, use_resource=use_resource)


def test_variables_outside_towers_go_to_the_tasks_of_the_others_and_local_ones_stay(graph):
    with built_in_a_cluster(["/cpu:0"]) as scopes:
        for name in "ab":
            v1.get_variable(name, [])
        with scopes.build.outside_towers():
            made = [v1.get_variable("c", [], trainable=False)]
            local("own")
            made += [v1.get_variable(name, [], trainable=False) for name in "de"]
            number = tf.constant(1.0)
        local("of_a_tower", use_resource=False)
        v1.metrics.mean(number)
    tasks = [f"/job:ps/task:{index}/device:CPU:0" for index in (0, 1, 0)]
    assert [variable.device for variable in made] == tasks
    assert number.device == TASK
    assert len(v1.local_variables()) == 4
    assert {variable.device for variable in v1.local_variables()} == {f"{TASK}/device:CPU:0"}
