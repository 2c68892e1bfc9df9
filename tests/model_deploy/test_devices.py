"""Device names, the plan of towers, and the device function that carries it out."""

import pytest
import tensorflow as tf

from model_deploy import devices

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("gpu:1", "/device:GPU:1"),
        ("/device:gpu:1", "/device:GPU:1"),
        ("/cpu", "/device:CPU:0"),
        ("/job:ps/task:3/cpu:0", "/job:ps/task:3/device:CPU:0"),
    ],
)
def test_every_form_of_a_device_name_has_one_canonical_form(name, full):
    assert devices.canonical_device(name) == full


@pytest.mark.parametrize("name", ["gpu one", "/job:worker", 3])
def test_invalid_device_names_are_refused(name):
    with pytest.raises(ValueError, match=r"Not a device: .* Accepted are names such as"):
        devices.canonical_device(name)


def test_plan_takes_all_logical_devices_by_default():
    plan = devices.device_plan()
    assert plan.towers == devices.local_devices()
    assert devices.local_devices("cpu") == tuple(f"/device:CPU:{index}" for index in range(8))
    assert plan.parameters == ("/device:CPU:0",)
    assert plan.consolidation == "/device:CPU:0"


def test_single_gpu_keeps_its_variables(monkeypatch):
    monkeypatch.setattr(devices, "_count_logical_devices", lambda kind: 1)
    assert devices.device_plan(["/gpu:0"]).parameters == ("/device:GPU:0",)
    assert devices.device_plan(["/gpu:0", "/gpu:0"]).parameters == ("/device:CPU:0",)


def test_gpus_are_preferred(monkeypatch):
    monkeypatch.setattr(devices, "_count_logical_devices", {"GPU": 2, "CPU": 1}.__getitem__)
    assert devices.device_plan().towers == ("/device:GPU:0", "/device:GPU:1")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"variables": "ps"}, ValueError, "variables must be one of .*'round_robin'.*got 'ps'"),
        ({"devices": ["/gpu:7"]}, ValueError, "Cannot put a tower on /device:GPU:7: this process"),
        ({"devices": ["/cpu:99"]}, ValueError, "CPU:99: .*set_logical_device_configuration"),
        ({"devices": "/gpu:0"}, TypeError, r"Write devices=\['/gpu:0'\]"),
    ],
)
def test_plans_that_cannot_be_made_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        devices.device_plan(**arguments)


def test_device_of_a_cluster_is_not_checked():
    plan = devices.device_plan(["/job:worker/task:4/gpu:3"])
    assert plan.towers == ("/job:worker/task:4/device:GPU:3",)


def test_placer_by_bytes_takes_the_device_with_the_fewest_bytes(any_graph):
    placer = devices.VariablePlacer(["/device:CPU:1", "/device:CPU:2"], "by_bytes")
    shapes = [[10], [4], [3], [4], [2, 2], []]  # 40 | 16, 12, 16 -> 44 | 40 + 16 | 44 + 4
    with v1.device(placer.on("")):
        made = [v1.get_variable(f"v{i}", shape=shape) for i, shape in enumerate(shapes)]
        zeros = v1.zeros_initializer()  # 56 + 24 | 48 + 4 + 4
        made += [v1.get_variable(f"z{i}", [4], tf.int8, initializer=zeros) for i in range(2)]
        made += [v1.get_variable("wide", [3], tf.float64), v1.get_variable("last", [])]
    assert [variable.device[-1] for variable in made] == list("1222122212")


def test_state_of_unknown_size_counts_as_zero_bytes(any_graph):
    placer = devices.VariablePlacer(["/device:CPU:1", "/device:CPU:2"], "by_bytes")
    with v1.device(placer.on("")):
        unknown = v1.get_variable(
            "unknown", initializer=v1.placeholder(tf.float32), validate_shape=False
        )
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64)), -1
        )
        known = v1.get_variable("known", shape=[1])
        other = v1.get_variable("other", shape=[1])
    found = [state.device[-1] for state in (unknown, table.resource_handle, known, other)]
    assert found == list("1112")


def test_unknown_placement_is_refused():
    with pytest.raises(ValueError, match=r"'by_luck': .* one of 'round_robin', 'by_bytes'"):
        devices.VariablePlacer([devices.CPU], "by_luck")


@pytest.mark.parametrize(
    ("worker", "writer"),
    [
        ("/device:GPU:1", "/device:CPU:0"),
        ("/job:worker/device:GPU:1", "/job:worker/device:CPU:0"),
        ("/device:CPU:3", "/device:CPU:3"),
        ("", ""),
    ],
)
def test_summaries_are_written_on_a_cpu(graph, worker, writer):
    placer = devices.VariablePlacer([devices.CPU])
    with v1.device(placer.on(worker)):
        value = tf.constant(1.0)
        written = [v1.summary.scalar("a", value), v1.summary.histogram("b", value)]
    assert value.device == worker
    assert [summary.device for summary in written] == [writer, writer]


def test_state_on_another_job_takes_no_turn_and_is_on_the_cpu(any_graph):
    placer = devices.VariablePlacer(["/job:ps/task:0/cpu:0", "/job:ps/task:1/cpu:0"])
    with v1.device(placer.on("/job:worker/device:GPU:1")):
        first = v1.get_variable("a", shape=[])
        with v1.device("/job:worker"):
            other = v1.get_variable("b", shape=[100])
        second = v1.get_variable("c", shape=[])
    assert [first.device, second.device] == [
        "/job:ps/task:0/device:CPU:0",
        "/job:ps/task:1/device:CPU:0",
    ]
    assert other.device == "/job:worker/device:CPU:0"
