"""The program on two towers, to a stated accuracy."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_reaches_an_accuracy_on_two_towers(run_program, tmp_path):
    done = run_program(
        "bring_your_own_optimizer",
        f"--model_dir={tmp_path}",
        "--train_steps=80",
        "--eval_every_steps=80",
        "--progress=off",
    )
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    accuracy = float(re.search(r"^test accuracy +(\S+)", done.out, re.MULTILINE)[1])
    assert accuracy >= 0.92


def test_a_learning_rate_of_zero_is_refused(run_program):
    done = run_program("bring_your_own_optimizer", "--learning_rate=0")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "must be a number above 0" in done.err
