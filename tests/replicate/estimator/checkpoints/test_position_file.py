import json
from pathlib import Path

import pytest

from replicate.estimator.checkpoints.pipeline_record import PipelineRecord, RecordedOp
from replicate.estimator.checkpoints.position_file import (
    SavedPosition,
    read_position,
    remove_position,
    write_position,
)

CHECKS = ("crc32", "checkpoint")
RECORD = PipelineRecord("int64", (RecordedOp("RangeDataset", {"stop": "10"}),))
POSITION = SavedPosition(7, 3, 2**61 + 1, RECORD, b"a\nb\x00")


def test_written_position_is_read(tmp_path):
    checkpoint = f"{tmp_path}/model.ckpt-7"
    assert read_position(checkpoint) is None
    write_position(checkpoint, SavedPosition(1, 0, None, RECORD))
    write_position(checkpoint, POSITION)
    assert read_position(checkpoint) == POSITION
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-7.input_position"]


def test_position_is_removed_once_or_twice(tmp_path):
    write_position(f"{tmp_path}/c", POSITION)
    remove_position(f"{tmp_path}/c")
    remove_position(f"{tmp_path}/c")
    assert read_position(f"{tmp_path}/c") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-1] + b"?",
        lambda content: b"garbage",
        lambda content: b"[]\n",
        lambda content: content.replace(b'"format": 1', b'"format": 2'),
        lambda content: content.replace(b'"elements": 7', b'"elements": 9'),
    ],
)
def test_damaged_file_is_an_error(tmp_path, damage):
    write_position(f"{tmp_path}/c", POSITION)
    path = tmp_path / "c.input_position"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is damaged, or"):
        read_position(f"{tmp_path}/c")


def without_checks(path):
    """Rewrites a file as version 0.2.0 did; returns its numbers and the rest of it."""
    line, _, rest = path.read_bytes().partition(b"\n")
    numbers = {name: v for name, v in json.loads(line).items() if name not in CHECKS}
    path.write_bytes(json.dumps(numbers).encode() + b"\n" + rest)
    return numbers, rest


def test_file_of_the_first_release_is_read(tmp_path):
    write_position(f"{tmp_path}/c", POSITION)
    without_checks(tmp_path / "c.input_position")
    assert read_position(f"{tmp_path}/c") == POSITION


@pytest.mark.parametrize("elements", [-1, 2, 2**63, 10**400, "7", None])
def test_impossible_number_of_elements_is_an_error(tmp_path, elements):
    write_position(f"{tmp_path}/c", POSITION)
    path = tmp_path / "c.input_position"
    numbers, rest = without_checks(path)
    path.write_bytes(json.dumps({**numbers, "elements": elements}).encode() + b"\n" + rest)
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is damaged, or"):
        read_position(f"{tmp_path}/c")


@pytest.mark.parametrize("put", [Path.mkdir, lambda path: path.symlink_to(path.name)])
def test_directory_and_circle_of_links_are_errors(tmp_path, put):
    put(tmp_path / "c.input_position")
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is no file"):
        read_position(f"{tmp_path}/c")


def test_position_of_another_checkpoint_is_an_error(tmp_path):
    write_position(f"{tmp_path}/c-1", POSITION)
    (tmp_path / "c-1.input_position").rename(tmp_path / "c-2.input_position")
    with pytest.raises(ValueError, match=r"Cannot read .*c-2\.input_position.*belongs to c-1"):
        read_position(f"{tmp_path}/c-2")
