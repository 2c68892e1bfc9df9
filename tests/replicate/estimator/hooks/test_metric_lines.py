"""Metric lines: one JSON object per line, whatever is measured, and whatever was left behind."""

import json
import time

import numpy as np
import pytest

from replicate.estimator.hooks.metric_lines import METRICS_FILE, append_metrics
from replicate.estimator.optional_files import OptionalFiles


def lines(folder):
    return (folder / METRICS_FILE).read_text().splitlines()


def test_a_line_is_an_object_with_step_and_time(tmp_path):
    before = time.time()
    append_metrics(f"{tmp_path}/", np.int64(7), {"loss": 0.5})
    [line] = lines(tmp_path)
    found = json.loads(line)
    assert before - 1 < found.pop("time") < time.time() + 1
    assert found == {"step": 7, "loss": 0.5}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (np.float32(0.5), 0.5),
        (np.array(3, np.int64), 3),
        (np.bool_(True), True),
        ("eval_test", "eval_test"),
        (float("nan"), None),
        (np.float32(-np.inf), None),
    ],
)
def test_values(tmp_path, value, written):
    others = {
        "image": b"bytes",
        "matrix": np.eye(2),
        "none": None,
        "pair": (1, [2, 3]),
        "dict": {"a": 1},
        "complex": 1j,
        "texts": np.array(b"text", object),
    }
    append_metrics(str(tmp_path), 1, {"value": value, **others})
    [line] = lines(tmp_path)
    found = json.loads(line)
    assert found == {"step": 1, "time": found["time"], "value": written}


def test_lines_are_added_and_one_that_was_torn_is_ended_first(tmp_path):
    append_metrics(str(tmp_path), 1, {})
    whole = (tmp_path / METRICS_FILE).read_bytes()
    (tmp_path / METRICS_FILE).write_bytes(whole + whole[:9])
    append_metrics(str(tmp_path), 2, {})
    append_metrics(str(tmp_path), 3, {})
    first, torn, *others = lines(tmp_path)
    assert f"{first}\n{torn}".encode() == whole + whole[:9]
    assert [json.loads(line)["step"] for line in (first, *others)] == [1, 2, 3]


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / METRICS_FILE).mkdir()
    append_metrics(str(tmp_path), 4, {"loss": 1.0})
    assert f"{tmp_path}/{METRICS_FILE} cannot be written: " in caplog.text


def test_failures_of_one_writer_give_one_warning(tmp_path, caplog):
    (tmp_path / METRICS_FILE).mkdir()
    optional = OptionalFiles()
    for step in range(3):
        append_metrics(str(tmp_path), step, {}, optional)
    assert caplog.text.count("cannot be written") == 1


def test_link_out_of_the_directory_is_not_written_to(tmp_path, caplog):
    other, folder = tmp_path / "other", tmp_path / "run"
    folder.mkdir()
    other.write_text("mine")
    (folder / METRICS_FILE).symlink_to(other)
    append_metrics(str(folder), 4, {"loss": 1.0})
    assert other.read_text() == "mine"
    assert "metrics.jsonl cannot be written: it is a link to a file outside" in caplog.text
