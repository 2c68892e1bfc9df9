"""Local variables: where they go under device functions that send variables elsewhere."""

import contextlib

import pytest
import tensorflow as tf

from model_deploy.local_variables import current_task, local_variables_on

v1 = tf.compat.v1

TASK = "/job:worker/task:1"
LOCAL = [v1.GraphKeys.LOCAL_VARIABLES]


def setter(**settings):
    return v1.train.replica_device_setter(ps_tasks=2, worker_device=TASK, **settings)


def local(name):
    return v1.get_variable(name, [], collections=LOCAL, initializer=v1.zeros_initializer())


@pytest.mark.parametrize(
    ("scopes", "task"),
    [
        ([], ""),
        (["/cpu:0"], ""),
        (["/job:worker"], "/job:worker"),
        (["/job:worker/replica:0/task:3/gpu:1"], "/job:worker/replica:0/task:3"),
        ([setter(), "/cpu:1"], TASK),
        ([setter(), None], ""),
    ],
)
def test_current_task_ignores_placement_of_variables(graph, scopes, task):
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(v1.device(scope))
        with v1.name_scope("inside"), v1.control_dependencies([tf.constant(1)]):
            assert current_task() == task
    assert tf.constant(1.0, name="here").op.name == "here"


@pytest.mark.parametrize("merge", [True, False])
def test_local_variables_of_every_kind_are_on_the_task(any_graph, merge):
    """Global variables take their turns as if there were no local ones."""
    with v1.device(setter(merge_devices=merge)), local_variables_on(TASK):
        first = v1.get_variable("first", [])
        made = [
            local("a"),
            v1.get_local_variable("b", []),
            v1.Variable(0.0, trainable=False, collections=LOCAL, name="c"),
            v1.Variable(0.0, collections=["mine", v1.GraphKeys.METRIC_VARIABLES], name="metric"),
            v1.Variable(
                0.0,
                collections=[],
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
                name="variable_of_a_keras_metric",
            ),
        ]
        v1.metrics.mean(first)
        with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
            v1.get_variable("d", [4], collections=LOCAL)
        others = [
            tf.Variable(0.0, name="tf_variable"),
            v1.Variable(0.0, collections=[], name="in_no_collection"),
            v1.get_variable("moving", [], synchronization=tf.VariableSynchronization.ON_READ),
        ]
    assert len(v1.local_variables()) == 7
    assert {variable.device for variable in [*made, *v1.local_variables()]} == {TASK}
    assert [variable.device[-1] for variable in [first, *others]] == list("0101")
    assert all("/job:ps" in variable.device for variable in [first, *others])


def test_without_a_task_nothing_changes(graph):
    with v1.device("/job:ps/task:0/cpu:2"), local_variables_on(""):
        assert local("a").device == "/job:ps/task:0/device:CPU:2"
