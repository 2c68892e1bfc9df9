"""Records that a report reads, and K-FAC's health in words."""

import json
import math

import pytest

from replicate.report.curves import Curve
from replicate.report.kfac_health import kfac_health
from replicate.report.records import read_record

RUN = {
    "started": "2026-01-02T03:04:05Z",
    "devices": {"towers": ["/cpu:0", ""], "variables": [], "consolidation": ""},
    "variables": [
        {"variable": "w", "shape": "2x3", "dtype": "float32", "parameters": 6000, "device": ""}
    ],
    "params": {"rate": 0.5, "other": None},
    "environment": {"python": "3.11", "gpus": 0},
}


def test_both_files_are_read(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    config = {"program": "p", "flags": {"a": [1, "x"], "b": "y" * 999}, "params": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    record = read_record(tmp_path)
    assert record.settings == {
        "run": {"program": "p"},
        "flags": {"a": "[1, 'x']", "b": "y" * 200 + "…"},
        "params": {"rate": "0.5", "other": "None"},
    }
    assert record.devices == {
        "towers": "/cpu:0 TensorFlow's choice",
        "variables on": "TensorFlow's choice",
        "consolidation": "TensorFlow's choice",
    }
    changed = {"parameters": "6,000", "device": "-", "note": "-"}
    assert record.variables == [{**RUN["variables"][0], **changed}]
    assert (record.num_parameters, record.num_towers) == (6000, 2)
    assert record.environment == {"python": "3.11", "gpus": "0"}
    assert (record.started, record.notes) == ("2026-01-02T03:04:05Z", [])


def test_missing_files_and_links_give_notes(tmp_path):
    record = read_record(tmp_path)
    assert record.notes == [
        "There is no config.json in this directory (the example programs write it).",
        "There is no run.json in this directory (Estimator.train writes it).",
    ]
    assert (record.settings, record.variables, record.num_towers) == ({}, [], 0)
    secret = tmp_path.parent / f"{tmp_path.name}.json"
    secret.write_text('{"params": {"key": "secret"}}')
    (tmp_path / "config.json").symlink_to(secret)
    record = read_record(tmp_path)
    assert record.settings == {}
    assert "config.json is a link out of this directory, and is not read." in record.notes


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (b'{"a": ', "run.json cannot be read: JSONDecodeError."),
        (b"[" * 100_000, "run.json cannot be read: RecursionError."),
        (b"[1]", "run.json holds list, not an object."),
    ],
)
def test_damaged_files_give_notes(tmp_path, text, note):
    (tmp_path / "run.json").write_bytes(text)
    assert read_record(tmp_path).notes[1] == note


def test_values_of_wrong_types_are_text_or_left_out(tmp_path):
    wrong = {
        "started": 5,
        "devices": {"towers": "none", "x": [None]},
        "variables": [1, {"variable": ["v"], "parameters": "many"}],
        "environment": [1],
        "params": [2],
    }
    (tmp_path / "run.json").write_text(json.dumps(wrong))
    record = read_record(tmp_path)
    assert record.started == "5"
    assert record.devices == {"towers": "none", "x": "None"}
    assert [row["variable"] for row in record.variables] == ["['v']"]
    assert (record.variables[0]["parameters"], record.num_parameters) == ("many", 0)
    assert (record.environment, record.settings) == ({}, {"run": {"params": "[2]"}})


def words(**curves):
    """The sentences on curves with these values, as one text."""
    training = {
        f"kfac/monitor/{tag.replace('__', '/')}": Curve(tuple(range(len(values))), values)
        for tag, values in curves.items()
    }
    return " ".join(kfac_health(training))


def test_a_healthy_run():
    assert kfac_health({"loss": Curve((1,), (1.0,))}) == []
    told = words(
        skipped_steps=(0.0, 0.0),
        rejected_steps=(0.0, 1.0),
        kept_inverses=(0.0, 0.0),
        damping=(0.25, 0.125),
        rho=(math.nan, 0.5),
        w__input__inverse_condition=(math.nan, 8.0),
    )
    assert told == (
        "All is well: every step, every statistic and every inverse was finite. "
        "1 step was undone; a few are normal. "
        "The largest condition number is 8, of w/input, which float32 can invert. "
        "The loss fell about as predicted: the damping is right (rho 0.5). "
        "The damping fell from 0.25 to 0.125, as in a good run."
    )


def test_trouble_comes_with_advice():
    told = words(
        skipped_steps=(0.0, 2.0),
        refused_statistics=(1.0,),
        retried_inverses=(0.0, 3.0),
        kept_inverses=(0.0, 1.0),
        w__output__inverse_condition=(2e7,),
        damping=(0.1, 10.0),
    )
    assert "All is well" not in told
    for part in (
        "2 steps were not finite and skipped. Look for bad input, or lower the learning rate.",
        "The curvature of 1 batch was not finite and left out.",
        "3 inversions needed more damping; 1 inversion failed, so that the last inverse was kept.",
        "The largest condition number is 2e+07, of w/output: raise min_damping",
        "The damping rose from 0.1 to 10.",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("rho", "told"),
    [
        (-0.5, "rose where K-FAC predicted a fall"),
        (0.1, "far less than predicted"),
        (1.0, "as predicted: the damping may fall"),
        (3.0, "steps could be longer"),
    ],
)
def test_rho_in_words(rho, told):
    assert told in words(rho=(rho,))
    assert words(damping=(0.5, 0.5)) == "The damping is 0.5."
    assert words(rho=(math.nan,), damping=(math.nan,), skipped_steps=(math.inf,)).count(".") == 1
