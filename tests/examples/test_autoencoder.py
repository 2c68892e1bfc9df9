"""The program on two towers, to a stated loss, and its picture."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_reaches_a_loss_and_draws_reconstructions(run_program, tmp_path):
    done = run_program(
        "autoencoder",
        f"--model_dir={tmp_path}",
        "--train_steps=25",
        "--eval_every_steps=25",
        "--progress=off",
    )
    assert done.code == 0, done.err
    assert "512 = 2 x 256" in done.out
    train, test = re.findall(r"loss ([\d.]+) error", done.out)
    assert float(train) < 22.5
    assert float(test) < 23
    assert f"{tmp_path}/autoencoder.png\n" in done.out
    assert (tmp_path / "autoencoder.png").read_bytes()[:4] == b"\x89PNG"
