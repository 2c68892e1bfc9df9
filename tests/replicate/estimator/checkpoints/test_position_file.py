import pytest

from replicate.estimator.checkpoints.pipeline_record import PipelineRecord, RecordedOp
from replicate.estimator.checkpoints.position_file import (
    SavedPosition,
    read_position,
    remove_position,
    write_position,
)

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
    ],
)
def test_damaged_file_is_an_error(tmp_path, damage):
    write_position(f"{tmp_path}/c", POSITION)
    path = tmp_path / "c.input_position"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"Cannot read .*c\.input_position: it is damaged, or"):
        read_position(f"{tmp_path}/c")
