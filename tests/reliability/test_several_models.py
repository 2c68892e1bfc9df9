"""Several calls of train in each of two processes without parameter servers, as real processes."""

from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("several_models.py")


def weights_of(journal, task):
    """The weights that a task has printed, call after call."""
    lines = [text.split() for text in journal.of(task)]
    return [list(map(float, line[2:])) for line in lines if line[0] == "weights"]


@pytest.mark.timeout(240)
def test_models_with_equal_names_of_variables_are_trained_one_after_the_other(
    cluster, journal, tmp_path, program
):
    """Each as one process trains it, also where the sizes of its variables are others."""
    supervisor = cluster(PROGRAM, tmp_path / "many", workers=2, ps=0, evaluator=False)
    assert supervisor.run() == 0
    found = weights_of(journal, "chief 0")
    assert weights_of(journal, "worker 0") == found
    alone = program("several_models")
    expected = [alone.train(str(tmp_path / "one"), *call) for call in alone.CALLS]
    assert [len(each) for each in found] == [3, 3, 5, 3]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
