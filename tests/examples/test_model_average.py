"""The program that averages weights, in a cluster. `test_programs.py` runs it alone."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from replicate.launch.plan import free_ports

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_learns_the_digits_in_a_cluster(tmp_path):
    jobs = ("chief", "worker", "ps")
    addresses = zip(jobs, free_ports(3), strict=True)
    cluster = {job: [f"127.0.0.1:{port}"] for job, port in addresses}
    command = [
        *(sys.executable, "-m", "examples.model_average", f"--model_dir={tmp_path}"),
        *("--num_towers=1", "--train_steps=30", "--progress=log"),
    ]
    outside = {name: text for name, text in os.environ.items() if not name.endswith("_proxy")}
    children = {}
    try:
        for job in jobs:
            task = {"cluster": cluster, "task": {"type": job, "index": 0}}
            children[job] = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**outside, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        ended = {job: child.communicate(timeout=240) for job, child in children.items()}
    finally:
        for child in children.values():
            child.kill()
            child.wait()
    for job, child in children.items():
        assert child.returncode == 0, f"{job}: {ended[job][1][-3000:]}"
    (accuracy,) = re.findall(r"^test accuracy +(\S+)$", ended["chief"][0], re.MULTILINE)
    assert float(accuracy) >= 0.95
    assert f"{tmp_path}/model.ckpt-30\n" in ended["chief"][0]
