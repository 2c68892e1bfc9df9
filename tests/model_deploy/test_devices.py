"""Device names, the plan of towers, and the device function that carries it out."""

import pytest
import tensorflow as tf

from model_deploy import devices

v1 = tf.compat.v1


@pytest.mark.parametrize("name", ["/gpu:1", "/GPU:1", "gpu:1", "/device:gpu:1", "/device:GPU:1"])
def test_every_form_of_a_device_name_has_one_canonical_form(name):
    assert devices.canonical_device(name) == "/device:GPU:1"


def test_device_without_index_is_the_first():
    assert devices.canonical_device("/cpu") == "/device:CPU:0"


def test_job_and_task_stay_in_the_name():
    assert devices.canonical_device("/job:ps/task:3/cpu:0") == "/job:ps/task:3/device:CPU:0"


@pytest.mark.parametrize("name", ["", "gpu one", "/job:worker", 3, None])
def test_invalid_device_names_are_refused(name):
    with pytest.raises(ValueError, match=r"Not a device: .* Accepted are names such as"):
        devices.canonical_device(name)


def test_local_devices_count_logical_devices():
    assert devices.local_devices("cpu") == tuple(f"/device:CPU:{index}" for index in range(8))


def test_plan_takes_all_devices_by_default():
    plan = devices.device_plan()
    assert plan.towers == devices.local_devices()
    assert plan.parameters == ("/device:CPU:0",)
    assert plan.consolidation == "/device:CPU:0"


def test_plan_may_repeat_a_device():
    plan = devices.device_plan(["/cpu:1", "/cpu:1"])
    assert plan.towers == ("/device:CPU:1", "/device:CPU:1")


def test_round_robin_plan_puts_variables_on_towers():
    plan = devices.device_plan(["/cpu:1", "/cpu:2"], variables="round_robin")
    assert plan.parameters == ("/device:CPU:1", "/device:CPU:2")
    assert plan.consolidation == "/device:CPU:0"


def test_unknown_choice_for_variables_is_refused():
    with pytest.raises(ValueError, match=r"variables must be one of .*'round_robin'.*got 'ps'"):
        devices.device_plan(variables="ps")


def test_single_gpu_keeps_its_variables(monkeypatch):
    monkeypatch.setattr(devices, "_count_logical_devices", lambda kind: 1)
    assert devices.device_plan(["/gpu:0"]).parameters == ("/device:GPU:0",)
    assert devices.device_plan(["/gpu:0", "/gpu:0"]).parameters == ("/device:CPU:0",)


def test_gpus_are_preferred(monkeypatch):
    monkeypatch.setattr(devices, "_count_logical_devices", {"GPU": 2, "CPU": 1}.__getitem__)
    assert devices.device_plan().towers == ("/device:GPU:0", "/device:GPU:1")


def test_unknown_device_error_lists_the_local_devices():
    with pytest.raises(ValueError, match=r"Cannot put a tower on /device:GPU:7: this process has"):
        devices.device_plan(["/gpu:7"])
    with pytest.raises(ValueError, match=r"CPU:99: .*set_logical_device_configuration"):
        devices.device_plan(["/cpu:99"])


def test_device_of_a_cluster_is_not_checked():
    plan = devices.device_plan(["/job:worker/task:4/gpu:3"])
    assert plan.towers == ("/job:worker/task:4/device:GPU:3",)


def test_a_string_instead_of_a_list_is_refused():
    with pytest.raises(TypeError, match=r"Write devices=\['/gpu:0'\]"):
        devices.device_plan("/gpu:0")


def test_plan_prints_as_one_line():
    line = str(devices.device_plan(["/cpu:0", "/cpu:1"]))
    assert line == "2 towers: /device:CPU:0 /device:CPU:1   variables on /device:CPU:0"


@pytest.mark.parametrize("use_resource", [True, False])
def test_placer_puts_variables_on_parameter_devices_in_turn(graph, use_resource):
    placer = devices.VariablePlacer(["/device:CPU:2", "/device:CPU:3"])
    made = []
    for tower in ("/device:CPU:4", "/device:CPU:5"):
        with v1.device(placer.on(tower)), v1.variable_scope(tower[-1], use_resource=use_resource):
            made += [v1.get_variable(name, shape=[]) for name in ("a", "b", "c")]
            product = made[-1] * 2.0
            assert product.device == tower
    assert [variable.device[-1] for variable in made] == list("232323")


def test_placer_by_bytes_takes_the_device_with_the_fewest_bytes(any_graph):
    placer = devices.VariablePlacer(["/device:CPU:1", "/device:CPU:2"], "by_bytes")
    shapes = [[10], [4], [3], [4], [2, 2], []]  # 40 | 16, 12, 16 -> 44 | 40 + 16 | 44 + 4
    with v1.device(placer.on("")):
        made = [v1.get_variable(f"v{i}", shape=shape) for i, shape in enumerate(shapes)]
    assert [variable.device[-1] for variable in made] == list("122212")


def test_placer_by_bytes_takes_the_dtype_into_account(any_graph):
    placer = devices.VariablePlacer(["/device:CPU:1", "/device:CPU:2"], "by_bytes")
    with v1.device(placer.on("")):
        made = [
            v1.get_variable(name, shape=[3], dtype=dtype, initializer=v1.zeros_initializer())
            for name, dtype in [("a", tf.float64), ("b", tf.int32), ("c", tf.int8), ("d", tf.int32)]
        ]
    assert [variable.device[-1] for variable in made] == list("1222")  # 24 | 12 + 3 + 12


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


def test_inner_device_fields_take_precedence(graph):
    placer = devices.VariablePlacer(["/job:ps/task:1/device:CPU:0"])
    with v1.device(placer.on("/device:CPU:1")), v1.device("/device:CPU:6"):
        assert tf.constant(1.0).device == "/device:CPU:6"
        variable = v1.get_variable("v", shape=[])
    assert variable.device == "/job:ps/task:1/device:CPU:6"


@pytest.mark.parametrize("placement", ["round_robin", "by_bytes"])
def test_state_on_another_job_takes_no_turn_and_is_on_the_cpu(any_graph, placement):
    placer = devices.VariablePlacer(["/job:ps/task:0/cpu:0", "/job:ps/task:1/cpu:0"], placement)
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


def test_placed_variables_train_from_another_device(graph):
    placer = devices.VariablePlacer(["/device:CPU:0"])
    with v1.device(placer.on("/device:CPU:5")):
        weight = v1.get_variable("w", initializer=3.0)
        train = v1.train.GradientDescentOptimizer(0.5).minimize(weight * weight)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(weight) == 0.0
