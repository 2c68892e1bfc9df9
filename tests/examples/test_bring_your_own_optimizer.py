"""The program on two towers, to a stated accuracy."""

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
    assert done.number("test accuracy") >= 0.92
