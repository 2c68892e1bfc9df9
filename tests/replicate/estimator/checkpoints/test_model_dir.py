import pathlib

import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.model_dir import prepare_model_dir, remove_remains


def test_makes_the_directory_and_leaves_nothing_in_it(tmp_path):
    prepare_model_dir(f"{tmp_path}/a/b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_model_dir_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="it is a file, and must be a directory"):
        prepare_model_dir(f"{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint.saving", "training_ended"])
def test_refuses_a_directory_in_the_place_of_a_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} in it is a directory, and must be a file"):
        prepare_model_dir(str(tmp_path))


def test_refuses_a_directory_that_cannot_be_made():
    with pytest.raises(ValueError, match="no file can be written there"):
        prepare_model_dir("/proc/model")


def test_refuses_a_directory_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise tf.errors.PermissionDeniedError(None, None, f"{path}: Permission denied")

    monkeypatch.setattr(tf.io.gfile, "GFile", refuse)
    with pytest.raises(ValueError, match=r"no file can be written there .*Permission denied"):
        prepare_model_dir(str(tmp_path))


HALF_WRITTEN = [
    "model.ckpt-10.data-00000-of-00001.tempstate12345",
    "model.ckpt-10.index.tempstate12345",
    "model.ckpt-11_temp",
    "model.ckpt-10.input_position.tempstate0",
    "checkpoint.tmpabcdef",
    "graph.pbtxt.tmp12345",
    "run.json.tmp12345",
    "time.json.tmp12345",
]
WHOLE = [
    "model.ckpt-10.data-00000-of-00001",
    "model.ckpt-10.index",
    "model.ckpt-10.input_position",
    "checkpoint",
    "graph.pbtxt",
    "run.json",
    "time.json",
    "my_model.ckpt-3_temp",
    "events.out.tfevents.1",
    "model.ckpt-12.index.corrupt",
    "model.ckpt-12.data-00000-of-00001.corrupt",
]


def test_removes_half_written_files_only(tmp_path):
    for name in HALF_WRITTEN + WHOLE:
        (tmp_path / name).write_text("")
    assert remove_remains(FencedModelDir(str(tmp_path))) == sorted(HALF_WRITTEN)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WHOLE)


def test_removes_half_written_directories_but_does_not_follow_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    model_dir = tmp_path / "model"
    (model_dir / "model.ckpt-1_temp").mkdir(parents=True)
    (model_dir / "model.ckpt-1_temp" / "part-0").write_text("")
    pathlib.Path(model_dir / "model.ckpt-2_temp").symlink_to(outside)
    assert len(remove_remains(FencedModelDir(str(model_dir)))) == 2
    assert list(model_dir.iterdir()) == []
    assert (outside / "kept").exists()


@pytest.mark.parametrize(
    ("state", "removed"),
    [
        (
            b'model_checkpoint_path: "model.ckpt-9"',
            ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.input_position"],
        ),
        (b'model_checkpoint_path: "model.ckpt-3"', []),
        (b"", []),
    ],
    ids=["unlisted", "listed", "unusable state"],
)
def test_removes_half_deleted_checkpoints_that_are_not_listed(tmp_path, state, removed):
    for name in ("3.data-00000-of-00001", "3.input_position", "9.data-00000-of-00001", "9.index"):
        (tmp_path / f"model.ckpt-{name}").write_text("")
    (tmp_path / "checkpoint").write_bytes(state)
    assert remove_remains(FencedModelDir(str(tmp_path))) == removed
    assert len(list(tmp_path.iterdir())) == 5 - len(removed)


def test_nothing_to_remove(tmp_path):
    assert remove_remains(FencedModelDir(str(tmp_path))) == []
    assert remove_remains(FencedModelDir(f"{tmp_path}/absent")) == []
