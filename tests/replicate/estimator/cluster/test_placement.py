"""Tasks that train, and the devices of what they build."""

import pytest
import tensorflow as tf

from replicate.estimator.cluster.placement import check_trains, training_device, training_scope
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

JOBS = {"chief": ("a:1",), "worker": ("a:2", "a:3"), "ps": ("a:4", "a:5")}


def config(role="worker", index=1, **settings):
    return RunConfig(cluster=ClusterConfig(JOBS, role, index), **settings)


def test_evaluators_and_parameter_servers_do_not_train():
    for trains in (RunConfig(), config("chief", 0), config("worker", 0)):
        check_trains(trains)
    for role in ("evaluator", "ps"):
        with pytest.raises(ValueError, match=f"makes this process {role} 1, .*train_and_evaluate"):
            check_trains(config(role, 1))


def test_variables_go_to_the_parameter_servers_and_the_rest_to_the_worker(graph):
    with v1.device(training_device(config())):
        first, second = v1.get_variable("a", [3]), v1.get_variable("b", [3])
        total = first + second
    assert [variable.device for variable in (first, second)] == [
        "/job:ps/task:0",
        "/job:ps/task:1",
    ]
    assert total.device == "/job:worker/task:1"
    assert training_device(config(device_fn=str)) is str, "that of the user comes first"
    assert training_device(RunConfig(device_fn=str)) is str


def test_local_variables_stay_on_the_worker_whatever_the_device_function_says(graph):
    def device_fn(operation):
        is_variable = operation.type in ("VariableV2", "VarHandleOp")
        return "/job:ps/task:1" if is_variable else tf.DeviceSpec.from_string("/job:worker/task:1")

    with training_scope(config(device_fn=device_fn)):
        weight = v1.get_variable("w", initializer=1.0)
        v1.get_local_variable("own", [])
        v1.get_local_variable("old", [], use_resource=False)
        keras_like = v1.Variable(
            0.0,
            collections=[],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    own = [*v1.local_variables(), keras_like]
    assert [variable.device for variable in own] == ["/job:worker/task:1"] * 3
    assert "/job:ps" in weight.device


def test_training_graph_of_a_process_on_its_own_has_no_device(graph):
    with training_scope(RunConfig()):
        made = [v1.get_local_variable("own", []), v1.get_variable("w", [])]
    assert [variable.device for variable in made] == ["", ""]
    assert "NoOp" not in {operation.type for operation in graph.get_operations()}
