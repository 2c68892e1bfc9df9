"""The program: K-FAC beside Adagrad."""

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.broad
def test_kfac_fits_the_training_set_better_than_adagrad(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--table=wine")
    steps = ("--train_steps=20", "--eval_every_steps=20")
    done = run_program("tabular_kfac", *arguments, *steps, "--hidden_units=8")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert done.number("K-FAC +train loss") < done.number("Adagrad +train loss")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()
    other = run_program("tabular_kfac", *arguments)
    assert other.code == 2
    assert "holds checkpoints of a network of 8 units for wine" in other.err
