"""Errors of disks: real ones of the operating system, by way of Python and of TensorFlow."""

from pathlib import Path

import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.saved.disk_errors import disk_errors, disk_reason


def write_with_python(path):
    path.write_text("x")


def write_with_tensorflow(path):
    with tf.io.gfile.GFile(str(path), "w") as file:
        file.write("x")


WRITERS = [write_with_python, write_with_tensorflow]


@pytest.mark.parametrize("write", WRITERS)
def test_python_and_tensorflow_give_the_same_line(tmp_path, write):
    path = tmp_path / "absent" / "file"
    with (
        pytest.raises(CheckpointError) as caught,
        disk_errors("Cannot save x", "Look at the disk."),
    ):
        write(path)
    assert str(caught.value) == (
        f"Cannot save x: {path}: No such file or directory. Look at the disk."
    )


@pytest.mark.parametrize("write", WRITERS)
def test_full_disk(write):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises((OSError, tf.errors.ResourceExhaustedError)) as caught:
        write(Path("/dev/full"))
    assert disk_reason(caught.value).endswith("No space left on device")


def test_message_of_an_operation_has_its_file(graph, tmp_path):
    (tmp_path / "file").write_text("")
    saved = tf.raw_ops.SaveV2(
        prefix=f"{tmp_path}/file/a", tensor_names=["a"], shape_and_slices=[""], tensors=[[1.0]]
    )
    with tf.compat.v1.Session() as session, pytest.raises(tf.errors.OpError) as caught:
        session.run(saved)
    reason = disk_reason(caught.value)
    assert reason.startswith(f"{tmp_path}/file")
    assert reason.endswith("Not a directory")


def test_directory_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        tf.io.gfile.makedirs(f"{tmp_path}/file/a")
    assert disk_reason(caught.value) == f"{tmp_path}/file: not a directory"


def test_directory_that_is_missed_by_a_saver(graph, tmp_path):
    tf.compat.v1.get_variable("w", [])
    saver = tf.compat.v1.train.Saver()
    (tmp_path / "file").write_text("")
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(ValueError, match="Parent directory") as caught:
            saver.save(session, f"{tmp_path}/file/a/model.ckpt")
    assert disk_reason(caught.value).endswith("Not a directory")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("No space left on device"),
        OSError("no number"),
        tf.errors.UnavailableError(None, None, "connect to 127.0.0.1: Connection refused"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        tf.errors.OutOfRangeError(None, None, "End of sequence"),
    ],
)
def test_other_errors_pass(error):
    assert disk_reason(error) is None
    with pytest.raises(type(error)) as caught, disk_errors("Cannot save x"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    "kind", [tf.errors.OutOfRangeError, tf.errors.AbortedError, tf.errors.UnknownError]
)
def test_faults_with_another_meaning_for_a_session_are_translated(kind):
    text = "/disk/a; File too large\n\t [[node save/SaveV2]]"
    line = r"^Cannot save: /disk/a: File too large\.$"
    with pytest.raises(CheckpointError, match=line), disk_errors("Cannot save"):
        raise kind(None, None, text)
