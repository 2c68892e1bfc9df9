import json

import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.estimator import RunConfig
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.hooks.start import StartHook
from replicate.tower.recorded_plan import record_plan

v1 = tf.compat.v1

SHOWN = """\
towers          1: TensorFlow's choice
variables on    TensorFlow's choice
consolidation   TensorFlow's choice
variable  shape  parameters  bytes
w         2x3             6     24
1 variable, 6 parameters, 0.00 MiB
"""


@pytest.fixture
def model(graph):
    v1.get_variable("w", [2, 3])
    v1.get_variable("other", [2, 3], trainable=False)


def test_devices_and_variables_are_shown_once_until_they_change(model, tmp_path, capsys):
    hook = StartHook(RunConfig(str(tmp_path), progress="log"), {"rate": 1})
    hook.begin()
    hook.begin()
    assert capsys.readouterr() == ("", SHOWN)
    record_plan(device_plan(["/cpu:0"]))
    hook.begin()
    assert capsys.readouterr().err.startswith("towers          1: /device:CPU:0\n")
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["devices"]["towers"] == ["/device:CPU:0"]
    assert record["params"] == {"rate": 1}


def test_without_progress_there_is_a_record_and_a_line_in_the_log(model, tmp_path, capsys, caplog):
    with caplog.at_level("INFO", logger="absl"):
        StartHook(RunConfig(str(tmp_path), progress="off"), {}).begin()
    assert capsys.readouterr().err == ""
    assert [row["variable"] for row in json.loads((tmp_path / "run.json").read_text())["variables"]]
    assert caplog.messages == [
        "Training. Towers: 1: TensorFlow's choice. Variables on: TensorFlow's choice. "
        "Consolidation: TensorFlow's choice."
    ]


def test_a_worker_only_logs(model, tmp_path, capsys):
    jobs = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",)}
    config = RunConfig(str(tmp_path), progress="log", cluster=ClusterConfig(jobs, "worker"))
    StartHook(config, {}).begin()
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_variables_has_no_table(graph, tmp_path, capsys):
    StartHook(RunConfig(str(tmp_path), progress="log"), {}).begin()
    assert capsys.readouterr().err.splitlines()[1:] == [
        "variables on    none",
        "consolidation   TensorFlow's choice",
    ]
