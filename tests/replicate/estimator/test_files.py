"""Files of a run: written whole or not at all, done without after a warning, and the log."""

import errno

import pytest
import tensorflow as tf

from replicate.estimator.files import OptionalFiles, write_whole

PROGRAM = """
import logging
from replicate.estimator.log import log

log.warning("told %s", "once")
log.info("told by request only")
assert not logging.root.handlers, "what a program does not ask for must not be configured"
"""


@pytest.mark.parametrize("content", ["näher\n", b"\x00\xff"])
def test_file_replaces_the_one_before(tmp_path, content):
    path = tmp_path / "file"
    path.write_text("before")
    write_whole(str(path), content, f"{path}.tmp")
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_file_stays_if_the_new_one_cannot_be_moved(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise tf.errors.PermissionDeniedError(None, None, "no")

    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(tf.io.gfile, "rename", refuse)
    with pytest.raises(tf.errors.PermissionDeniedError):
        write_whole(str(path), "after", f"{path}.tmp")
    assert path.read_text() == "before"


def test_errors_of_both_kinds_are_one_warning_per_file(caplog):
    optional = OptionalFiles()
    faults = [
        OSError(errno.ENOSPC, "No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "/a; No space left on device"),
    ]
    for path in ("/a", "/b"):
        for fault in faults:
            with optional.writing(path):
                raise fault
    with pytest.raises(ValueError, match="mine"), optional.writing("/c"):
        raise ValueError("mine")
    assert [record.getMessage() for record in caplog.records] == [
        "/a cannot be written: No space left on device. The run goes on without it.",
        "/b cannot be written: No space left on device. The run goes on without it.",
    ]


def test_logging_configures_nothing(run_python):
    done = run_python(PROGRAM)
    assert done.code == 0, done.err
    assert done.err.count("told once") == 1
    assert "by request" not in done.err
