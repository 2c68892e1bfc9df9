"""The program that averages weights, in a cluster. `test_programs.py` runs it alone."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_learns_the_digits_in_a_cluster(run_cluster, tmp_path):
    flags = f"--model_dir={tmp_path} --num_towers=1 --train_steps=30 --progress=log"
    printed = run_cluster("model_average", flags.split())
    (accuracy,) = re.findall(r"^test accuracy +(\S+)$", printed["chief"], re.MULTILINE)
    assert float(accuracy) >= 0.95
    assert f"{tmp_path}/model.ckpt-30\n" in printed["chief"]
