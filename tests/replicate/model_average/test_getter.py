from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from replicate.model_average import GLOBAL_VARIABLE_NAME, ModelAverageCustomGetter
from replicate.model_average.getter import averaged_variables

v1 = tf.compat.v1
Keys = v1.GraphKeys


@pytest.fixture
def getter(graph):
    """A getter in whose scope the test's variables are made."""
    getter = ModelAverageCustomGetter("")
    with v1.variable_scope("", custom_getter=getter):
        yield getter


def names(key):
    return [variable.op.name for variable in v1.get_collection(key)]


def test_local_variables_are_on_the_worker_and_centers_on_the_parameter_servers_in_turn(graph):
    getter = ModelAverageCustomGetter("/job:worker/task:0")
    setter = v1.train.replica_device_setter(worker_device="/job:worker/task:0", ps_tasks=2)
    with v1.device(setter), v1.variable_scope("", custom_getter=getter):
        made = [v1.get_variable(name, [2]) for name in ("v0", "v1", "v2")]
    assert [variable.device for variable in made] == ["/job:worker/task:0"] * 3
    assert [pair.local for pair in getter.averaged] == made
    assert [pair.center.device for pair in getter.averaged] == [
        "/job:ps/task:0",
        "/job:ps/task:1",
        "/job:ps/task:0",
    ]


def test_names_and_collections_of_local_variable_and_center(getter):
    with v1.variable_scope("layer"), v1.name_scope("somewhere"):
        v1.get_variable("w", [2], collections=[Keys.GLOBAL_VARIABLES, "mine"], use_resource=False)
    center = f"{GLOBAL_VARIABLE_NAME}/layer/w"
    assert names(Keys.GLOBAL_VARIABLES) == [center]
    assert names(Keys.LOCAL_VARIABLES) == names(Keys.TRAINABLE_VARIABLES) == ["layer/w"]
    assert names("mine") == [center, "layer/w"]
    assert [each.op.type for each in v1.get_collection("mine")] == ["VarHandleOp", "VariableV2"]


def test_non_trainable_variables_are_not_averaged(getter):
    mean = v1.get_variable("mean", [2], tf.float64, v1.zeros_initializer(), trainable=False)
    count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer())
    flag = v1.get_variable("flag", initializer=True)
    own = v1.get_variable("own", [2], collections=[Keys.LOCAL_VARIABLES])
    step = v1.train.create_global_step()
    assert getter.averaged == []
    assert v1.global_variables() == [mean, count, flag, step]
    assert v1.local_variables() == [own]
    assert mean.dtype == tf.float64


def test_each_getter_lists_only_its_own_variables(graph):
    getters = [ModelAverageCustomGetter("") for _ in range(2)]
    for getter, name in zip(getters, "ab", strict=True):
        with v1.variable_scope(name, custom_getter=getter):
            first = v1.get_variable("w", [2])
        with v1.variable_scope(name, custom_getter=getter, reuse=True):
            assert v1.get_variable("w", [2]) is first
    assert [[pair.local.op.name for pair in each.averaged] for each in getters] == [
        ["a/w"],
        ["b/w"],
    ]
    assert len(averaged_variables()) == 2
    with tf.Graph().as_default():
        assert getters[0].averaged == []


def test_other_getters_may_pass_arguments_by_position(graph):
    averaging = ModelAverageCustomGetter("")

    def by_position(getter, name, shape, dtype, initializer, **kwargs):
        return averaging(getter, name, shape, dtype, initializer, **kwargs)

    with v1.variable_scope("", custom_getter=by_position):
        local = v1.get_variable("w", [2], tf.float64)
    assert averaging.averaged[0].local is local
    assert averaging.averaged[0].center.dtype == tf.float64


def test_get_variable_arguments_apply_to_the_local_variable(getter):
    local = v1.get_variable(
        "w",
        [4, 2],
        regularizer=tf.nn.l2_loss,
        constraint=tf.identity,
        partitioner=v1.fixed_size_partitioner(2),
    )
    (pair,) = getter.averaged
    assert len(v1.get_collection(Keys.REGULARIZATION_LOSSES)) == 1
    assert (local.constraint, pair.center.constraint) == (tf.identity, None)
    assert local.shape == pair.center.shape == [4, 2]


@pytest.mark.parametrize(
    ("initializer", "use_resource"),
    [(v1.random_normal_initializer(), True), ([1.0, 2.0], False)],
    ids=["drawn", "given"],
)
def test_local_variables_start_with_the_values_of_the_centers(getter, initializer, use_resource):
    shape = [2] if callable(initializer) else None
    local = v1.get_variable("w", shape, initializer=initializer, use_resource=use_resource)
    center = getter.averaged[0].center
    with v1.Session() as session:
        session.run(v1.group(v1.global_variables_initializer(), v1.local_variables_initializer()))
        first, begun = session.run([center, local])
        np.testing.assert_array_equal(begun, first)
        session.run(center.assign([5.0, 6.0]))
        session.run(v1.local_variables_initializer())
        np.testing.assert_array_equal(session.run(local), [5.0, 6.0])


@pytest.mark.parametrize(
    ("master", "jobs", "device"),
    [
        ("", {}, ""),
        ("grpc://a:1", {"chief": ["a:1"], "worker": ["a:2"]}, "/job:chief/task:0"),
        ("grpc://a:1", {}, ""),
    ],
    ids=["alone", "in a cluster", "with a session master"],
)
def test_of_takes_the_device_from_the_run_config(master, jobs, device):
    cluster_spec = v1.train.ClusterSpec(jobs)
    config = SimpleNamespace(task_type="chief", task_id=0, master=master, cluster_spec=cluster_spec)
    assert ModelAverageCustomGetter.of(config).worker_device == device
    with pytest.raises(TypeError, match=r'worker_device must be .* got None\. Pass "/job:worker'):
        ModelAverageCustomGetter(None)
