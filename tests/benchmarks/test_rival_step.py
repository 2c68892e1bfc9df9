import json

import pytest

from benchmarks import rival_step


def test_lines_compare_with_momentum():
    times = {"momentum": [0.001, 0.002, 0.001], "kfac": [0.002, 0.003, 0.004]}
    _, line = rival_step.lines({"convnet": {"tensorflow-kfac": times}})
    assert line.startswith("convnet, tensorflow-kfac")
    assert line.endswith("2.00 [1.50, 4.00]")


@pytest.mark.parametrize("name", rival_step.RIVALS)
def test_installs_once(name, tmp_path, monkeypatch):
    commands = []

    def run(command):
        commands.append(command)
        (tmp_path / name).mkdir(exist_ok=True)
        return "python3.11\n"

    monkeypatch.setattr(rival_step, "_run", run)
    python = rival_step.install(name, tmp_path)
    assert commands[1][:3] == ["python3.11", "-m", "venv"]
    installed = [argument for command in commands[2:] for argument in command if "==" in argument]
    assert installed == [*rival_step.RIVALS[name].packages, *rival_step.RIVALS[name].alone]
    count = len(commands)
    assert rival_step.install(name, tmp_path) == python
    assert len(commands) == count


def test_failures_show_what_the_program_said():
    with pytest.raises(SystemExit, match="out of luck"):
        rival_step._run(["python3", "-c", "raise SystemExit('out of luck')"])
    said = rival_step._run(["python3", "-c", "print('[1, 2]')"])
    assert json.loads(said) == [1, 2]
