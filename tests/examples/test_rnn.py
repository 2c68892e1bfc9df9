"""The program on two towers, to a stated accuracy."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_reaches_an_accuracy_on_two_towers(run_program, tmp_path):
    done = run_program(
        "rnn",
        f"--model_dir={tmp_path}",
        "--train_steps=100",
        "--eval_every_steps=100",
        "--progress=off",
    )
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert "approx=kron_series_2" in done.out
    accuracy = float(re.search(r"^test accuracy +(\S+)", done.out, re.MULTILINE)[1])
    assert accuracy >= 0.93


def test_an_unknown_approximation_is_refused(run_program):
    done = run_program("rnn", "--approx=kron")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "kron_series_2|kron_series_1|kron_indep" in done.err
