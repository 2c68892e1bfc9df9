"""Files that a run does without: warnings, one for each file."""

import errno

import pytest
import tensorflow as tf

from replicate.estimator.optional_files import OptionalFiles


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
    assert [record.getMessage() for record in caplog.records] == [
        "/a cannot be written: No space left on device. The run goes on without it.",
        "/b cannot be written: No space left on device. The run goes on without it.",
    ]


def test_other_errors_pass():
    with pytest.raises(ValueError, match="mine"), OptionalFiles().writing("/a"):
        raise ValueError("mine")
