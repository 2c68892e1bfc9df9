"""The program: K-FAC beside Adagrad."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def training_loss(out, name):
    return float(re.search(rf"^{name} +train loss (\S+)", out, re.MULTILINE)[1])


def test_kfac_fits_the_training_set_better_than_adagrad(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--table=wine")
    steps = ("--train_steps=20", "--eval_every_steps=20")
    done = run_program("tabular_kfac", *arguments, *steps, "--hidden_units=8")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert training_loss(done.out, "K-FAC") < training_loss(done.out, "Adagrad")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()
    other = run_program("tabular_kfac", *arguments)
    assert other.code == 2
    assert "holds checkpoints of a network of 8 units for wine" in other.err


def test_unusable_flags_are_refused(run_program, tmp_path):
    units = run_program("tabular_kfac", "--hidden_units=")
    assert units.code == 2
    assert "whole numbers above 0" in units.err
    batch = run_program("tabular_kfac", "--batch_size=400", f"--model_dir={tmp_path}")
    assert batch.code == 2
    assert "--batch_size=400 is more than the 341 rows" in batch.err
