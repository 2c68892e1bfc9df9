import json
import math
import re

import numpy as np
import tensorflow as tf

from model_deploy import device_plan
from replicate.estimator import RunConfig
from replicate.estimator.run_record import placement, run_record, write_run_record
from replicate.tower.recorded_plan import record_plan
from replicate.variables.table import variable_rows

v1 = tf.compat.v1


def test_placement_of_towers_and_of_a_plain_graph(graph):
    with v1.device("/cpu:0"):
        rows = variable_rows([v1.get_variable("w", [2])])
    plain = placement(graph, rows)
    assert plain.lines() == [
        ("towers", "1: TensorFlow's choice"),
        ("variables on", "/device:CPU:0"),
        ("consolidation", "TensorFlow's choice"),
    ]
    assert placement(graph, []).lines()[1] == ("variables on", "none")
    record_plan(device_plan(["/cpu:0", "/cpu:0"]))
    assert placement(graph, rows).lines() == [
        ("towers", "2: /device:CPU:0 /device:CPU:0"),
        ("variables on", "/device:CPU:0"),
        ("consolidation", "/device:CPU:0"),
    ]


def test_record_holds_what_json_can_hold(graph, tmp_path):
    params = {
        "rate": np.float32(0.5),
        "units": (3, [4]),
        "limit": math.inf,
        "text": "x" * 1000,
        "optimizer": v1.train.AdamOptimizer,
        "array": np.zeros(3),
        "table": list(range(1000)),
        1: None,
    }
    config = RunConfig(str(tmp_path), session_config=v1.ConfigProto(allow_soft_placement=True))
    rows = variable_rows([v1.get_variable("w", [2, 3])], {"w": "kron"})
    write_run_record(str(tmp_path), run_record(placement(graph, rows), rows, config, params))
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["params"] == {
        "rate": 0.5,
        "units": [3, [4]],
        "limit": "inf",
        "text": "x" * 300 + "...",
        "optimizer": "AdamOptimizer",
        "array": "ndarray",
        "table": "list",
        "1": None,
    }
    assert found["variables"] == [
        {
            "variable": "w",
            "shape": "2x3",
            "dtype": "float32",
            "parameters": 6,
            "bytes": 24,
            "device": "",
            "note": "kron",
        }
    ]
    assert found["run_config"]["session_config"] == "allow_soft_placement: true"
    assert found["run_config"]["cluster"] == {}
    assert found["environment"]["tensorflow"] == tf.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["started"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_record_that_cannot_be_written_gives_a_warning(tmp_path, caplog):
    (tmp_path / "run.json").mkdir()
    write_run_record(str(tmp_path), {})
    assert f"{tmp_path}/run.json cannot be written: " in caplog.text
