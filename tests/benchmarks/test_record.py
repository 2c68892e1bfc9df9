import json

import matplotlib.image

from benchmarks import record


def test_measurements_are_written_with_their_circumstances(tmp_path):
    path = tmp_path / "found.json"
    record.write(str(path), {"a": [1.0]})
    found = json.loads(path.read_text())
    assert found["measured"] == {"a": [1.0]}
    assert found["cores"] >= 1
    assert set(found) == {"cores", "date", "load", "measured", "processor", "versions"}


def test_bars_are_drawn(tmp_path):
    path = tmp_path / "bars.png"
    groups = {"one": {"x": [1.0, 2.0], "y": [3.0]}, "two": {"y": [1.0, 5.0], "z": [2.0]}}
    record.draw_bars(str(path), groups, "Title", "ratio")
    image = matplotlib.image.imread(path)
    assert image.shape[0] > 300
    assert image.std() > 0.05
