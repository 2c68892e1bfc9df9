"""The program on two towers, until its samples are near real images, and its picture."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_samples_come_near_to_images(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--eval_every_steps=600")
    first = run_program("gan", *arguments, "--train_steps=1")
    done = run_program("gan", *arguments, "--train_steps=600")
    assert (first.code, done.code) == (0, 0), done.err
    assert "2 towers" in done.out
    assert "continuing at step 1" in done.out
    untrained, trained = (
        float(re.search(r"^sample to image (\S+)", out, re.MULTILINE)[1])
        for out in (first.out, done.out)
    )
    assert untrained > 3.0
    assert trained < 2.6
    assert (tmp_path / "samples.png").read_bytes()[:4] == b"\x89PNG"
