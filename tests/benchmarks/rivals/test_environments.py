import pytest

from benchmarks import harness
from benchmarks.rivals import environments


@pytest.mark.parametrize("name", environments.RIVALS)
def test_install_runs_once(name, tmp_path, monkeypatch):
    commands = []

    def run(command, purpose):
        assert purpose == f"install {name}"
        commands.append(command)
        (tmp_path / name).mkdir(exist_ok=True)
        return "python3.11\n"

    monkeypatch.setattr(harness, "run_program", run)
    python = environments.install(name, str(tmp_path))
    assert python == str(tmp_path / name / "bin" / "python")
    assert commands[1][:3] == ["python3.11", "-m", "venv"]
    rival = environments.RIVALS[name]
    installed = [argument for command in commands[2:] for argument in command if "==" in argument]
    assert installed == [*rival.packages, *rival.alone]
    count = len(commands)
    assert environments.install(name, str(tmp_path)) == python
    assert len(commands) == count


def test_failed_install_is_tried_again(tmp_path, monkeypatch):
    def fail(command, purpose):
        raise harness.ChildError(purpose)

    monkeypatch.setattr(harness, "run_program", fail)
    for _ in range(2):
        with pytest.raises(harness.ChildError, match="install kfac-jax"):
            environments.install("kfac-jax", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, rival in environments.RIVALS.items() for kind in rival.kinds],
)
def test_programs_of_rivals_exist(name, kind):
    _, *options, program, argument = environments.command(name, "python", kind, "convnet")
    assert options == ["-E", "-s"]
    assert (harness.ROOT / program).exists()
    assert argument == "convnet"


def test_rivals_with_programs_of_a_kind():
    assert environments.with_programs("steps") == ["tensorflow-kfac", "kfac-jax"]
    assert environments.with_programs("losses") == ["tensorflow-kfac", "kfac-jax", "pytorch"]
