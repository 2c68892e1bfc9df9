import json

from absl.testing import flagsaver

from benchmarks import graph_build, harness


def test_lines_show_the_time_per_tower():
    head, line = graph_build.lines({4: {"replicated": [2.0, 4.0], "by hand": [2.0, 2.0]}})
    assert head.split()[-3:] == ["s", "per", "tower"]
    assert "1.50 [1.00, 2.00]" in line
    assert line.endswith(" 0.75")


def test_program(tmp_path, monkeypatch):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--network=lenet", "--towers=1", "--towers=2", "--repeats=1"]
    outputs = [f"--json={data}", f"--picture={picture}"]
    monkeypatch.setattr(harness, "divide_cpu", lambda _: None)  # The tests have divided it.
    with flagsaver.flagsaver():
        graph_build.define_flags()
        graph_build.FLAGS(["program", *options, *outputs])
        graph_build.main([])
    found = json.loads(data.read_text())["measured"]
    assert list(found) == ["1", "2"]
    assert all(len(times) == 1 for ways in found.values() for times in ways.values())
    assert picture.stat().st_size > 5000
