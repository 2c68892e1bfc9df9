import os
import shutil

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.fallback import (
    indexed_checkpoints,
    listed_checkpoints,
    newest_checkpoint,
    set_aside_damaged,
)
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.reading import read_variable

v1 = tf.compat.v1

STEPS = (8, 9, 10)
DATA, INDEX, STATE = ".data-00000-of-00001", ".index", "checkpoint"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A directory with checkpoints of the steps 8, 9 and 10."""
    folder = tmp_path_factory.mktemp("written")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", [2, 3], initializer=v1.ones_initializer())
        saver = v1.train.Saver(save_relative_paths=True)
        session.run(v1.global_variables_initializer())
        for step in STEPS:
            saver.save(session, f"{folder}/model.ckpt", step, write_meta_graph=False)
    return folder


@pytest.fixture
def saved(written, tmp_path):
    """A copy of that directory, to be damaged."""
    return shutil.copytree(written, tmp_path / "saved")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def remove(path):
    path.unlink()


def garble(path):
    path.write_bytes(b"\xff garbage {")


def put_directory(path):
    path.unlink()
    path.mkdir()


def put_link_to_nowhere(path):
    path.unlink()
    path.symlink_to("/absent/file")


def test_state_file_names_the_newest_checkpoint(saved):
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert listed_checkpoints(str(saved)) == [f"{saved}/model.ckpt-{n}" for n in STEPS]
    (saved / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"


def test_new_directory_and_killed_first_save_have_no_newest_checkpoint(tmp_path):
    assert newest_checkpoint(f"{tmp_path}/absent") is None
    assert newest_checkpoint(str(tmp_path)) is None
    assert set_aside_damaged(FencedModelDir(str(tmp_path))) == []
    (tmp_path / "model.ckpt-0.data-00000-of-00001").write_text("")
    assert newest_checkpoint(str(tmp_path)) is None


def test_indexed_checkpoints_are_ordered_by_step(tmp_path):
    for name in ("model.ckpt-100", "model.ckpt-20", "other"):
        (tmp_path / f"{name}.index").write_text("")
    names = [os.path.basename(path) for path in indexed_checkpoints(str(tmp_path))]
    assert names == ["other", "model.ckpt-20", "model.ckpt-100"]


def contents(folder):
    return {p.name: p.read_bytes() if p.is_file() else p.lstat().st_ino for p in folder.iterdir()}


FILE_DAMAGE = {
    "bit flip in data": (flip, DATA),
    "bit flip in index": (flip, INDEX),
    "truncated": (cut, DATA),
    "missing data": (remove, DATA),
    "missing index": (remove, INDEX),
    "directory as data": (put_directory, DATA),
    "directory as index": (put_directory, INDEX),
    "link as data": (put_link_to_nowhere, DATA),
    "link as index": (put_link_to_nowhere, INDEX),
}


@pytest.mark.parametrize(("damage", "suffix"), FILE_DAMAGE.values(), ids=FILE_DAMAGE)
def test_damaged_newest_checkpoint_is_set_aside(saved, damage, suffix, own_log):
    damage(saved / f"model.ckpt-10{suffix}")
    before = contents(saved)
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"
    assert contents(saved) == before, "a mere search changes nothing"
    assert set_aside_damaged(FencedModelDir(str(saved))) == [f"{saved}/model.ckpt-10"]
    assert f"Set checkpoint {saved}/model.ckpt-10 aside" in own_log.text
    assert f"{saved}/model.ckpt-10{suffix.partition('-')[0]}" in own_log.text, "names the file"
    after = contents(saved)
    moved = {name for name in before if name.startswith("model.ckpt-10.")}
    assert {f"{name}.corrupt" for name in moved} == {n for n in after if n.endswith(".corrupt")}
    assert all(after[f"{name}.corrupt"] == before[name] for name in moved)
    assert listed_checkpoints(str(saved)) == [f"{saved}/model.ckpt-{n}" for n in (8, 9)]
    assert v1.train.latest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"
    own_log.clear()
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"
    assert set_aside_damaged(FencedModelDir(str(saved))) == []
    assert not own_log.text, "warns once"


@pytest.mark.parametrize("damage", [garble, remove])
def test_unusable_state_file_takes_the_highest_step_and_warns(saved, damage, caplog):
    damage(saved / STATE)
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert "taking the newest one found" in caplog.text


def test_state_file_and_newest_checkpoint_damaged(saved):
    garble(saved / STATE)
    flip(saved / f"model.ckpt-10{DATA}")
    flip(saved / f"model.ckpt-9{INDEX}")
    assert set_aside_damaged(FencedModelDir(str(saved))) == [
        f"{saved}/model.ckpt-{step}" for step in (10, 9)
    ]
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-8"
    assert read_variable(f"{saved}/model.ckpt-8", "w").sum() == 6


def test_state_file_that_names_a_checkpoint_elsewhere(saved, caplog):
    (saved / STATE).write_text('model_checkpoint_path: "/absent/model.ckpt-77"')
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert "/absent/model.ckpt-77.index does not exist" in caplog.text


@pytest.mark.parametrize(
    ("damage", "suffix", "has_state_file"), [(flip, DATA, True), (remove, INDEX, False)]
)
def test_all_damaged_is_an_error_and_nothing_is_changed(saved, damage, suffix, has_state_file):
    for step in STEPS:
        damage(saved / f"model.ckpt-{step}{suffix}")
    if not has_state_file:
        remove(saved / STATE)
    before = contents(saved)
    for search, where in ((newest_checkpoint, str), (set_aside_damaged, FencedModelDir)):
        with pytest.raises(CheckpointError, match=r"Cannot continue in .*model\.ckpt-10"):
            search(where(str(saved)))
    assert contents(saved) == before


def test_circle_of_links_is_an_error(saved):
    path = saved / f"model.ckpt-10{DATA}"
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(
        CheckpointError, match=r"model\.ckpt-10: .*Too many levels of symbolic links"
    ):
        set_aside_damaged(FencedModelDir(str(saved)))
    assert path.is_symlink()


@pytest.mark.parametrize("state", [b"", b'model_checkpoint_path: "model.ckpt-77"'])
def test_state_file_without_any_checkpoint_is_an_error(tmp_path, state):
    (tmp_path / "checkpoint").write_bytes(state)
    with pytest.raises(CheckpointError, match=r"no \*\.index file is left|77.index does not exist"):
        newest_checkpoint(str(tmp_path))
