"""Each way to end has a line and an exit code."""

import pytest

import replicate
from examples import endings


class Trained:
    """What stands in for an Estimator."""

    def latest_checkpoint(self):
        return "runs/model.ckpt-7"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (replicate.NonFiniteError("the loss is NaN"), 3, "training diverged: the loss is NaN"),
        (replicate.CheckpointError("it is damaged"), 2, "it is damaged"),
        (replicate.ClusterError("ps 0 is away"), 138, "ps 0 is away"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line(capsys, error, code, message):
    with pytest.raises(SystemExit) as end, endings.endings(Trained()):
        raise error
    assert end.value.code == code
    assert capsys.readouterr().err.endswith(f": {message}\n")


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (replicate.TrainingInterrupted(15, 7, "runs/model.ckpt-7"), 143),
        (KeyboardInterrupt(), 130),
    ],
    ids=["SIGTERM", "Ctrl-C"],
)
def test_a_stop_says_what_was_saved_and_how_to_go_on(capsys, stop, code):
    with pytest.raises(SystemExit) as end, endings.endings(Trained()):
        raise stop
    assert end.value.code == code
    printed = capsys.readouterr().out
    assert "runs/model.ckpt-7" in printed
    assert "go on with" in printed


def test_bugs_and_good_endings_pass():
    with endings.endings(Trained()):
        pass
    with pytest.raises(ZeroDivisionError), endings.endings(Trained()):
        raise ZeroDivisionError
