"""The program in both modes, to a stated accuracy."""

import json
import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.parametrize("mode", ["estimator", "plain"])
def test_reaches_an_accuracy(run_program, tmp_path, mode):
    done = run_program(
        "mlp",
        f"--mode={mode}",
        f"--model_dir={tmp_path}",
        "--train_steps=80",
        "--eval_every_steps=80",
    )
    assert done.code == 0, done.err
    towers = 2 if mode == "estimator" else 1
    assert f"{towers} tower" in done.out
    assert f"128 = {towers} x {128 // towers}" in done.out
    accuracy = float(re.search(r"^test accuracy +(\S+)", done.out, re.MULTILINE)[1])
    assert accuracy >= 0.94
    assert f"{tmp_path}/model.ckpt-80\n" in done.out
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["program"] == "examples.mlp"
    assert (config["flags"]["train_steps"], config["params"]["damping"]) == (80, 0.03)
    if mode == "estimator":
        for folder in (tmp_path, tmp_path / "eval_train", tmp_path / "eval_test"):
            [line] = (folder / "metrics.jsonl").read_text().splitlines()
            assert json.loads(line)["step"] == 80


def test_a_dry_run_compares_one_step_and_trains_nothing(run_program, tmp_path):
    done = run_program("mlp", f"--model_dir={tmp_path}", "--dry_run", "--batch_size=16")
    assert done.code == 0, done.err
    assert re.search(r"^difference +\S+ +gradient of linear3/bias$", done.out, re.MULTILINE)
    assert "loss and gradients on 2 towers are those on one, but for rounding" in done.out
    assert not list(tmp_path.glob("model.ckpt*"))


def test_checkpoints_that_cannot_be_used_are_one_line_and_exit_code_2(run_program, tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"')
    (tmp_path / "model.ckpt-5.index").write_text("damaged")
    done = run_program("mlp", f"--model_dir={tmp_path}", "--batch_size=16")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "model.ckpt-5" in done.err


def test_a_bar_is_refused_where_there_is_none(run_program, tmp_path):
    done = run_program("mlp", f"--model_dir={tmp_path}", "--mode=plain", "--progress=bar")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--progress=bar has no effect without --mode=estimator" in done.err


def test_modes_do_not_share_a_model_dir(run_program, tmp_path):
    (tmp_path / "checkpoint").touch()
    (tmp_path / "trained_for.txt").write_text("an MLP in mode plain on images of 8x8")
    done = run_program("mlp", f"--model_dir={tmp_path}")
    assert (done.code, done.out) == (2, "")
    assert "holds checkpoints of an MLP in mode plain" in done.err
