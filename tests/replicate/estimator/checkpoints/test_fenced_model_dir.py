"""Files of a model directory that only the holder of its lease writes."""

import os

import pytest
import tensorflow as tf

from replicate.errors import ModelDirInUseError
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.state_file import last_writer, write_state
from replicate.estimator.lease.claim import claim_lease

v1 = tf.compat.v1

PARTS = ("data-00000-of-00001", "index", "meta")


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


def test_a_checkpoint_takes_the_place_of_an_older_one(files, tmp_path):
    for text in ("old", "new"):
        with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
            write_parts(staged, text)
    assert contents(tmp_path) == {f"model.ckpt-7.{part}": "new" for part in PARTS}


def test_nothing_is_seen_of_a_checkpoint_that_is_not_complete(lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)

    def save():
        with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
            write_parts(staged, "half")
            assert contents(tmp_path) == {}
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    with pytest.raises(tf.errors.ResourceExhaustedError):
        save()
    assert contents(tmp_path) == {}
    assert os.listdir(lease.folder) == []


def test_parts_that_a_checkpoint_no_longer_has_are_removed(lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)
    write_parts(tmp_path / "model.ckpt-7", "old", [*PARTS, "input_position"])
    with files.staged(f"{tmp_path}/model.ckpt-7") as staged:
        write_parts(staged, "new")
    assert contents(tmp_path) == {f"model.ckpt-7.{part}": "new" for part in PARTS}


CHANGES = {
    "write": lambda files: files.write("checkpoint", "mine"),
    "move": lambda files: files.move(f"{files.model_dir}/kept", f"{files.model_dir}/lost"),
    "remove": lambda files: files.remove(f"{files.model_dir}/kept"),
    "remove nothing": lambda files: files.remove(f"{files.model_dir}/absent"),
    "check": lambda files: files.check(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_writer_that_was_taken_over_changes_nothing(change, lease, tmp_path):
    files = FencedModelDir(str(tmp_path), lease)
    thief = claim_lease(str(tmp_path), steal=True)
    for name in ("checkpoint", "kept"):
        FencedModelDir(str(tmp_path), thief).write(name, "theirs")
    with pytest.raises(ModelDirInUseError, match="has taken over"):
        change(files)
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
    lease = claim_lease(str(tmp_path), above=6)
    paths = [f"{tmp_path}/model.ckpt-{step}" for step in (1, 2)]
    write_state(FencedModelDir(str(tmp_path), lease), paths)
    lease.release()
    assert (tmp_path / "checkpoint").read_text().splitlines()[0] == "# writer 7"
    assert last_writer(str(tmp_path)) == 7
    state = v1.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths
    assert v1.train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == paths[-1]


@pytest.mark.parametrize("content", [None, b"", b"\xff", b'model_checkpoint_path: "a"'])
def test_there_is_no_writer_in_other_state_files(content, tmp_path):
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    assert last_writer(str(tmp_path)) == 0


def test_without_a_lease_the_state_file_is_that_of_tensorflow(tmp_path):
    (tmp_path / "ours").mkdir()
    write_state(
        FencedModelDir(f"{tmp_path}/ours"), [f"{tmp_path}/ours/a-1", f"{tmp_path}/ours/a-2"]
    )
    v1.train.update_checkpoint_state(str(tmp_path), "a-2", ["a-1", "a-2"])
    assert (tmp_path / "ours" / "checkpoint").read_text() == (tmp_path / "checkpoint").read_text()
