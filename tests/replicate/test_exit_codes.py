"""Exit codes and the errors that carry them."""

import signal

import pytest

from replicate import errors
from replicate.exit_codes import ExitCode, signal_exit_code


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ExitCode.DONE, 0),
        (ExitCode.BUG, 1),
        (errors.ClusterConfigError.code, 2),
        (errors.CheckpointError.code, 2),
        (errors.NonFiniteError.code, 3),
        (ExitCode.LEFT_TO_DO, 4),
        (errors.ClusterError.code, 138),
        (errors.TrainingInterrupted(signal.SIGINT, 5, "").code, 130),
        (errors.TrainingInterrupted(signal.SIGTERM, 5, "").code, 143),
    ],
)
def test_exit_codes_keep_their_numbers(code, number):
    assert code == number


def test_signal_exit_codes_have_names():
    assert signal_exit_code(signal.SIGINT) == ExitCode.INTERRUPTED
    assert signal_exit_code(signal.SIGTERM) == ExitCode.TERMINATED
