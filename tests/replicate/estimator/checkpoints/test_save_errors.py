"""Failed saves: the check of free space, and the one error for faults of the disk."""

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import CheckpointError, SaveError
from replicate.estimator.checkpoints import free_space
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir, write_state
from replicate.estimator.checkpoints.free_space import (
    SMALL_FILES_BYTES,
    check_free_space,
    free_bytes,
    saved_bytes,
)
from replicate.estimator.checkpoints.save_errors import save_errors

v1 = tf.compat.v1
FULL = "/disk/a; No space left on device"


@pytest.fixture
def files(tmp_path):
    return FencedModelDir(str(tmp_path))


@pytest.mark.parametrize(
    ("fault", "text", "makes_room"),
    [
        (OSError(errno.EROFS, "Read-only", "/disk/a"), "/disk/a: Read-only", False),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "quota exceeded", True),
        (tf.errors.ResourceExhaustedError(None, None, FULL), "/disk/a: No space left", True),
        (tf.errors.OutOfRangeError(None, None, "/disk/a; File too large"), "File too large", False),
        (tf.errors.PermissionDeniedError(None, None, "b: 403\nmore"), "ckpt-3: b: 403", False),
    ],
)
def test_faults_become_save_errors(files, tmp_path, fault, text, makes_room):
    with pytest.raises(SaveError) as caught, save_errors(f"{tmp_path}/model.ckpt-3", files):
        raise fault
    assert isinstance(caught.value, CheckpointError)
    assert caught.value.code == 2
    assert caught.value.__cause__ is fault
    assert text in caught.value.fault
    assert ("Make room" in str(caught.value)) == makes_room
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(" and start again to continue from the newest one.")


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "the server is gone"),
        tf.errors.FailedPreconditionError(None, None, "uninitialized value w"),
        ValueError("of a listener"),
    ],
)
def test_other_errors_pass_and_nothing_is_removed(files, tmp_path, error):
    left = tmp_path / "model.ckpt-3.data-00000-of-00001"
    left.write_text("")
    with pytest.raises(type(error)) as caught, save_errors(f"{tmp_path}/model.ckpt-3", files):
        raise error
    assert caught.value is error
    assert left.exists()


def test_leftovers_are_removed_and_other_files_stay(files, tmp_path):
    mine = (
        "model.ckpt-3.index",
        "model.ckpt-3.data-00000-of-00001.tempstate12",
        "model.ckpt-3.meta",
        "model.ckpt-3.input_position",
        "checkpoint.saving",
        "checkpoint.tmp_saving",
    )
    others = ("model.ckpt-30.index", "model.ckpt-2.index", "checkpoint", "metrics.jsonl")
    for name in (*mine, *others):
        (tmp_path / name).write_text("")
    (tmp_path / "model.ckpt-3_temp" / "part").mkdir(parents=True)
    with pytest.raises(SaveError), save_errors(f"{tmp_path}/model.ckpt-3", files):
        raise tf.errors.ResourceExhaustedError(None, None, FULL)
    assert {path.name for path in tmp_path.iterdir()} == set(others)
    write_state(files, [f"{tmp_path}/model.ckpt-2"])
    with pytest.raises(SaveError), save_errors(f"{tmp_path}/model.ckpt-2", files):
        raise tf.errors.ResourceExhaustedError(None, None, FULL)
    assert {path.name for path in tmp_path.iterdir()} == set(others), "it is in the state file"


@pytest.fixture
def free(monkeypatch):
    """Sets the free bytes of every disk."""
    return lambda count: monkeypatch.setattr(free_space, "free_bytes", lambda folder: count)


@pytest.mark.parametrize("sharded", [True, False])
def test_size_of_the_tensors_is_that_of_the_data_file(graph, tmp_path, sharded):
    with v1.device("/cpu:1"):
        v1.get_variable("a", [10, 5], tf.float64)
    v1.get_variable("b", [7], tf.float16)
    v1.get_variable("not_saved", [1000])
    saver = v1.train.Saver(v1.global_variables()[:2], sharded=sharded)
    assert saved_bytes(graph, saver) == 10 * 5 * 8 + 7 * 2
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        saver.save(session, f"{tmp_path}/a", write_meta_graph=False)
    assert sum(path.stat().st_size for path in tmp_path.glob("a.data-*")) == 414


def test_texts_and_open_shapes_have_no_known_size(graph):
    v1.get_variable("text", initializer=np.array(["a", "b"]), dtype=tf.string)
    v1.get_variable("open", initializer=v1.placeholder(tf.float32, [None]), validate_shape=False)
    assert saved_bytes(graph, v1.train.Saver()) == 0
    with tf.Graph().as_default() as empty:
        assert saved_bytes(empty, v1.train.Saver(allow_empty=True)) == 0


def test_first_save_needs_the_tensors(graph, tmp_path, free):
    v1.get_variable("a", [1000])
    arguments = (f"{tmp_path}/model.ckpt-3", graph, v1.train.Saver(), None)
    free(4000 + SMALL_FILES_BYTES)
    check_free_space(*arguments)
    free(4000 + SMALL_FILES_BYTES - 1)
    with pytest.raises(
        SaveError, match=f"it needs 20,384 bytes, and {tmp_path} has 20,383 bytes f"
    ):
        check_free_space(*arguments)
    assert not list(tmp_path.iterdir())


def test_later_saves_need_what_the_last_checkpoint_took(graph, tmp_path, free):
    for name, size in (("index", 30), ("data-00000-of-00001", 5000), ("meta", 4096), ("other", 9)):
        (tmp_path / f"model.ckpt-1.{name}").write_bytes(bytes(size))
    arguments = (f"{tmp_path}/model.ckpt-3", graph, None, f"{tmp_path}/model.ckpt-1")
    free(4 * 4096 + SMALL_FILES_BYTES)
    check_free_space(*arguments)
    free(4 * 4096 + SMALL_FILES_BYTES - 1)
    with pytest.raises(SaveError, match="needs 32,768 bytes"):
        check_free_space(*arguments)


def test_reserved_blocks_count_for_root_only(tmp_path, monkeypatch):
    stat = os.statvfs(tmp_path)
    assert 0 <= free_bytes(str(tmp_path)) <= stat.f_blocks * stat.f_frsize
    disk = SimpleNamespace(f_frsize=4096, f_blocks=100, f_bfree=7, f_bavail=2)
    monkeypatch.setattr(os, "statvfs", lambda folder: disk)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert free_bytes("/a") == 7 * 4096
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert free_bytes("/a") == 2 * 4096


def test_other_file_systems_are_not_checked(monkeypatch):
    for folder in ("gs://bucket/a", "ram://a", "/absent/folder"):
        assert free_bytes(folder) is None
        check_free_space(f"{folder}/model.ckpt-1", None, None, None)
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_blocks=0))
    assert free_bytes("/a") is None, "it counts no blocks"
