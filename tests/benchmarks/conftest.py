import json

import pytest


@pytest.fixture
def run_benchmark(run_command, tmp_path):
    """Runs a benchmark with options in a new process; returns what it measured.

    It draws a picture, too, unless it cannot.
    """

    def run(name, *options, draws=True):
        data, picture = tmp_path / "found.json", tmp_path / "found.png"
        outputs = [f"--json={data}", *[f"--picture={picture}"] * draws]
        run_command("-m", f"benchmarks.{name}", *outputs, *options, timeout=None)
        assert not draws or picture.stat().st_size > 5000
        return json.loads(data.read_text())["measured"]

    return run
