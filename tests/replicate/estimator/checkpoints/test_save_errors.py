"""Failed saves: the one error for faults of the disk, and what it leaves."""

import errno
import os

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError, SaveError
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.save_errors import save_errors
from replicate.estimator.checkpoints.state_file import write_state

FULL = "/disk/a; No space left on device"


@pytest.fixture
def files(tmp_path):
    return FencedModelDir(str(tmp_path))


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            OSError(errno.EROFS, "Read-only file system", "/disk/a"),
            "/disk/a: Read-only file system",
        ),
        (tf.errors.ResourceExhaustedError(None, None, FULL), "/disk/a: No space left on device"),
        (tf.errors.OutOfRangeError(None, None, "/disk/a; File too large"), "File too large"),
        (
            tf.errors.PermissionDeniedError(None, None, "gs://b: 403\nmore"),
            "model.ckpt-3: gs://b: 403",
        ),
    ],
)
def test_faults_become_save_errors(files, tmp_path, fault, text):
    with pytest.raises(SaveError) as caught, save_errors(f"{tmp_path}/model.ckpt-3", files):
        raise fault
    assert isinstance(caught.value, CheckpointError)
    assert caught.value.code == 2
    assert caught.value.__cause__ is fault
    assert text in caught.value.fault
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(" and start again to continue from the newest one.")


def test_advice_is_to_make_room_if_that_helps(files, tmp_path):
    advice = {}
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        with pytest.raises(SaveError) as caught, save_errors(f"{tmp_path}/model.ckpt-3", files):
            raise OSError(number, os.strerror(number))
        advice[number] = "Make room" in str(caught.value)
    assert advice == {errno.ENOSPC: True, errno.EDQUOT: True, errno.EROFS: False}


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "the server is gone"),
        tf.errors.AbortedError(None, None, "the server was started again"),
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


def test_a_checkpoint_in_the_state_file_stays(files, tmp_path):
    path = f"{tmp_path}/model.ckpt-3"
    (tmp_path / "model.ckpt-3.index").write_text("")
    write_state(files, [path])
    with pytest.raises(SaveError), save_errors(path, files):
        raise tf.errors.ResourceExhaustedError(None, None, FULL)
    assert {each.name for each in tmp_path.iterdir()} == {"checkpoint", "model.ckpt-3.index"}
