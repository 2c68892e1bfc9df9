"""Checkpoints that are read: damage in them, and the newest one that has none."""

import os
import shutil

import numpy as np
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
from replicate.estimator.checkpoints.reading import (
    checkpoint_files,
    read_variable,
    restore_variables,
)

v1 = tf.compat.v1


STEPS = (8, 9, 10)
DATA, INDEX, STATE = ".data-00000-of-00001", ".index", "checkpoint"


def build(shape=(2, 3), names=("w",)):
    for name in names:
        v1.get_variable(name, shape, initializer=v1.ones_initializer())
    return v1.train.Saver(sharded=True, save_relative_paths=True)


def restore(path, **model):
    with tf.Graph().as_default(), v1.Session() as session:
        saver = build(**model)
        restore_variables(session, saver, path)
        return session.run(v1.global_variables())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A directory with checkpoints of the steps 8, 9 and 10."""
    folder = tmp_path_factory.mktemp("written")
    with tf.Graph().as_default(), v1.Session() as session:
        saver = build()
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


def contents(folder):
    return {p.name: p.read_bytes() if p.is_file() else p.lstat().st_ino for p in folder.iterdir()}


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def test_files_of_a_checkpoint(saved):
    (saved / "model.ckpt-10.meta").write_text("")
    (saved / "model.ckpt-10.input_position").write_text("")
    (saved / f"model.ckpt-10{DATA}.corrupt").write_text("")
    names = [path.rpartition("/")[2] for path in checkpoint_files(f"{saved}/model.ckpt-10")]
    assert names == [
        f"model.ckpt-10{INDEX}",
        f"model.ckpt-10{DATA}",
        "model.ckpt-10.input_position",
        "model.ckpt-10.meta",
    ]
    assert checkpoint_files("/absent/model.ckpt-1") == []


DAMAGE = {
    "bit flip in data": (flip, DATA, f"damaged file .*10{DATA}"),
    "bit flip in index": (flip, INDEX, f"damaged file .*10{INDEX}"),
    "truncated data": (cut, DATA, f"damaged file .*10{DATA}"),
    "empty index": (lambda path: truncate(path, 0), INDEX, f"damaged file .*10{INDEX}"),
    "missing data": (remove, DATA, r"model.ckpt-10.data-\*, which does not exist"),
    "missing index": (remove, INDEX, "model.ckpt-10.index does not exist"),
    "directory as data": (put_directory, DATA, "model.ckpt-10.data"),
    "directory as index": (put_directory, INDEX, "model.ckpt-10.index"),
    "link as data": (put_link_to_nowhere, DATA, "model.ckpt-10.data"),
    "link as index": (put_link_to_nowhere, INDEX, "model.ckpt-10.index"),
}


@pytest.mark.parametrize(("damage", "suffix", "told"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_checkpoint_is_not_restored_and_set_aside(saved, damage, suffix, told, own_log):
    path = f"{saved}/model.ckpt-10"
    (weights,) = restore(path)
    np.testing.assert_array_equal(weights, np.ones([2, 3]))
    damage(saved / f"model.ckpt-10{suffix}")
    before = contents(saved)
    with pytest.raises(CheckpointError, match=told) as caught:
        restore(path)
    assert not isinstance(caught.value, tf.errors.OutOfRangeError)
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"
    assert contents(saved) == before, "a mere search changes nothing"
    assert set_aside_damaged(FencedModelDir(str(saved))) == [path]
    assert f"Set checkpoint {path} aside" in own_log.text
    assert f"{path}{suffix.partition('-')[0]}" in own_log.text, "names the file"
    after = contents(saved)
    moved = {name for name in before if name.startswith("model.ckpt-10.")}
    assert {f"{name}.corrupt" for name in moved} == {n for n in after if n.endswith(".corrupt")}
    assert all(after[f"{name}.corrupt"] == before[name] for name in moved)
    assert v1.train.latest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"
    assert listed_checkpoints(str(saved)) == [f"{saved}/model.ckpt-{n}" for n in (8, 9)]
    own_log.clear()
    assert set_aside_damaged(FencedModelDir(str(saved))) == []
    assert not own_log.text, "warns once"


NEITHER = r"Build the model that was saved, or .* with warm_start_from=replicate\.WarmStartSettings"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"shape": (3, 3)},
         r"shapes differ for 1 of its 1 variables: w: saved \[2, 3\], wanted \[3, 3\]\. "),
        ({"names": ("w", "b", "a")},
         r"lacks 2 of the 3 variables of this model: a, b\. It holds 1, .* lacks none\. "),
        ({"names": [f"v{number}" for number in range(8)]},
         r"lacks 8 of the 8 .*: v0, v1, v2, v3, v4 and 3 more\. It holds 1, .* lacks w\. "),
    ],
    ids=["shape", "some", "many"],
)  # fmt: skip
def test_variables_of_another_model_are_named(saved, model, told):
    with pytest.raises(CheckpointError, match=told + NEITHER):
        restore(f"{saved}/model.ckpt-10", **model)


def test_read_variable(saved):
    for name in ("w", "w:0"):
        np.testing.assert_array_equal(read_variable(f"{saved}/model.ckpt-9", name), np.ones([2, 3]))
    with pytest.raises(CheckpointError, match=r"'v' of .*-9: it holds 1 others, most like it w\. "):
        read_variable(f"{saved}/model.ckpt-9", "v")
    truncate(saved / f"model.ckpt-10{DATA}", 3)
    with pytest.raises(CheckpointError, match=f"damaged file .*10{DATA}"):
        read_variable(f"{saved}/model.ckpt-10", "w")


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


@pytest.mark.parametrize("damage", [garble, remove])
def test_unusable_state_file_takes_the_highest_step_and_warns(saved, damage, caplog):
    damage(saved / STATE)
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert "taking the newest one found" in caplog.text


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
