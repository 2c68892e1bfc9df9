"""Model directories, and their files that only the holder of the lease writes."""

import os

import pytest
import tensorflow as tf

from replicate.errors import ModelDirInUseError
from replicate.estimator.checkpoints.fenced_model_dir import (
    FencedModelDir,
    last_writer,
    write_state,
)
from replicate.estimator.checkpoints.model_dir import prepare_model_dir, remove_remains
from replicate.estimator.lease.claim import claim_lease

v1 = tf.compat.v1
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
PARTS = ("data-00000-of-00001", "index", "meta")


def test_unusable_directories_are_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="it is a file, and must be a directory"):
        prepare_model_dir(f"{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "kept"
    for name in ("checkpoint", "checkpoint.saving", "training_ended"):
        (tmp_path / name).mkdir()
        with pytest.raises(ValueError, match=f"{name} in it is a directory, and must be a file"):
            prepare_model_dir(str(tmp_path))
        (tmp_path / name).rmdir()
    with pytest.raises(ValueError, match="no file can be written there"):
        prepare_model_dir("/proc/model")

    def refuse(path, mode):
        raise tf.errors.PermissionDeniedError(None, None, f"{path}: Permission denied")

    monkeypatch.setattr(tf.io.gfile, "GFile", refuse)
    with pytest.raises(ValueError, match=r"no file can be written there .*Permission denied"):
        prepare_model_dir(str(tmp_path))


def test_removes_half_written_files_only_and_does_not_follow_links(tmp_path):
    outside, model_dir = tmp_path / "outside", tmp_path / "model"
    (outside / "kept").mkdir(parents=True)
    (model_dir / "model.ckpt-1_temp" / "part-0").mkdir(parents=True)
    (model_dir / "model.ckpt-2_temp").symlink_to(outside)
    for name in HALF_WRITTEN + WHOLE:
        (model_dir / name).write_text("")
    removed = [*HALF_WRITTEN, "model.ckpt-1_temp", "model.ckpt-2_temp"]
    assert remove_remains(FencedModelDir(str(model_dir))) == sorted(removed)
    assert sorted(path.name for path in model_dir.iterdir()) == sorted(WHOLE)
    assert (outside / "kept").exists()
    assert remove_remains(FencedModelDir(f"{tmp_path}/absent")) == []


@pytest.mark.parametrize("listed", ["9", "3", None])
def test_removes_half_deleted_checkpoints_that_are_not_listed(tmp_path, listed):
    half = ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.input_position"]
    for name in (*half, "model.ckpt-9.data-00000-of-00001", "model.ckpt-9.index"):
        (tmp_path / name).write_text("")
    state = f'model_checkpoint_path: "model.ckpt-{listed}"' if listed else ""
    (tmp_path / "checkpoint").write_text(state)
    removed = half if listed == "9" else []
    assert remove_remains(FencedModelDir(str(tmp_path))) == removed
    assert len(list(tmp_path.iterdir())) == 5 - len(removed)


def contents(folder):
    """Contents of all files of a directory but those of leases."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def lease(tmp_path):
    made = claim_lease(str(tmp_path))
    yield made
    made.release()


@pytest.fixture(params=["lease", "no lease"])
def files(request, tmp_path):
    lease = request.getfixturevalue("lease") if request.param == "lease" else None
    return FencedModelDir(f"{tmp_path}/", lease)


def write_parts(staged, text, parts=PARTS):
    for part in parts:
        with open(f"{staged}.{part}", "w") as file:
            file.write(text)


def test_files_are_written_moved_and_removed(files, tmp_path):
    files.write("checkpoint", "old")
    files.write("checkpoint", "new")
    files.write("note", "x")
    files.move(f"{tmp_path}/note", f"{tmp_path}/note.corrupt")
    assert contents(tmp_path) == {"checkpoint": "new", "note.corrupt": "x"}
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    for name in ("link", "checkpoint", "note.corrupt", "absent"):
        files.remove(f"{tmp_path}/{name}")
    assert (tmp_path / "tree" / "file").exists(), "links are not followed"
    files.remove(f"{tmp_path}/tree")
    assert {path.name for path in tmp_path.iterdir()} <= {"writer-1.lease"}
    files.check()
    files.check_notice()
    for text in ("old", "new"):
        with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
            write_parts(staged, text)
    assert contents(tmp_path) == {f"model.ckpt-7.{part}": "new" for part in PARTS}


def test_nothing_is_seen_of_a_checkpoint_that_is_not_complete(lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)
    write_parts(tmp_path / "model.ckpt-7", "old", [*PARTS, "input_position"])
    before = contents(tmp_path)

    def save():
        with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
            write_parts(staged, "half")
            assert contents(tmp_path) == before
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    with pytest.raises(tf.errors.ResourceExhaustedError):
        save()
    assert contents(tmp_path) == before
    assert os.listdir(lease.folder) == []
    with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
        write_parts(staged, "new")
    assert contents(tmp_path) == {f"model.ckpt-7.{part}": "new" for part in PARTS}


def test_a_writer_that_was_taken_over_changes_nothing(lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)
    thief = claim_lease(str(tmp_path), steal=True)
    for name in ("checkpoint", "kept"):
        FencedModelDir(str(tmp_path), thief).write(name, "theirs")
    for change in (
        lambda: files.write("checkpoint", "mine"),
        lambda: files.move(f"{tmp_path}/kept", f"{tmp_path}/lost"),
        lambda: files.remove(f"{tmp_path}/kept"),
        lambda: files.remove(f"{tmp_path}/absent"),
        files.check,
    ):
        with pytest.raises(ModelDirInUseError, match="has taken over"):
            change()
    assert contents(tmp_path) == {"checkpoint": "theirs", "kept": "theirs"}
    thief.release()


def test_a_writer_that_is_taken_over_within_a_save_publishes_nothing(lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)

    def save():
        with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
            write_parts(staged, "mine")
            thief = claim_lease(str(tmp_path), steal=True)
            with FencedModelDir(str(tmp_path), thief).staged(f"{tmp_path}/model.ckpt-7") as theirs:
                write_parts(theirs, "theirs")
            thief.release()

    with pytest.raises(ModelDirInUseError, match="has taken over"):
        save()
    assert contents(tmp_path) == {f"model.ckpt-7.{part}": "theirs" for part in PARTS}


def test_without_a_lease_files_are_written_in_their_place_on_any_file_system():
    folder = "ram://model_files"
    tf.io.gfile.makedirs(folder)
    files = FencedModelDir(folder)
    files.write("checkpoint", "text")
    with files.staged(f"{folder}/model.ckpt-1") as staged:
        assert staged == f"{folder}/model.ckpt-1"
    files.remove(f"{folder}/absent")
    assert tf.io.gfile.listdir(folder) == ["checkpoint"]


def test_tensorflow_reads_the_state_file_of_a_writer(tmp_path):
    assert last_writer(str(tmp_path)) == 0
    for other in (b"", b"\xff", b'model_checkpoint_path: "a"'):
        (tmp_path / "checkpoint").write_bytes(other)
        assert last_writer(str(tmp_path)) == 0
    lease = claim_lease(str(tmp_path), above=6)
    paths = [f"{tmp_path}/model.ckpt-{step}" for step in (1, 2)]
    write_state(FencedModelDir(str(tmp_path), lease), paths)
    lease.release()
    assert (tmp_path / "checkpoint").read_text().splitlines()[0] == "# writer 7"
    assert last_writer(str(tmp_path)) == 7
    state = v1.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths
    assert state.model_checkpoint_path == paths[-1]
    write_state(FencedModelDir(str(tmp_path)), paths)
    without_lease = (tmp_path / "checkpoint").read_text()
    v1.train.update_checkpoint_state(
        str(tmp_path), "model.ckpt-2", ["model.ckpt-1", "model.ckpt-2"]
    )
    assert without_lease == (tmp_path / "checkpoint").read_text()
