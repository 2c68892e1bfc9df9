"""config.json: what the newest run was asked to do, and what was asked before it."""

import json

import pytest

import replicate
from examples import config_file


@pytest.fixture
def record(tmp_path):
    def record(step, **params):
        config = replicate.RunConfig(model_dir=str(tmp_path), save_summary_steps=5)
        config_file.record(config, params, step)
        return {path.name: json.loads(path.read_text())["params"] for path in tmp_path.iterdir()}

    return record


def test_what_is_written(tmp_path, record):
    record(0, damping=0.03, optimizer="kfac")
    found = json.loads((tmp_path / "config.json").read_text())
    assert list(found) == ["program", "flags", "params", "run_config"]
    assert found["params"] == {"damping": 0.03, "optimizer": "kfac"}
    assert found["run_config"]["save_summary_steps"] == 5
    assert found["run_config"]["save_checkpoints_secs"] == 600
    assert found["run_config"]["cluster"] == {}


def test_a_run_that_goes_on_with_the_same_leaves_one_file(record):
    record(0, rate=1)
    assert record(100, rate=1) == {"config.json": {"rate": 1}}


def test_what_was_asked_before_is_kept_with_the_step_that_was_reached_with_it(record):
    record(0, rate=1)
    record(100, rate=2)
    found = record(250, rate=3)
    assert found == {
        "config-100.json": {"rate": 1},
        "config-250.json": {"rate": 2},
        "config.json": {"rate": 3},
    }


def test_what_made_no_step_is_not_kept(record):
    record(0, rate=1)
    assert record(0, rate=2) == {"config.json": {"rate": 2}}
    record(100, rate=3)
    assert record(100, rate=4) == {"config-100.json": {"rate": 2}, "config.json": {"rate": 4}}
