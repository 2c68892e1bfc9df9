import pytest

from benchmarks import children, rival_environments


@pytest.mark.parametrize("name", rival_environments.RIVALS)
def test_installs_once(name, tmp_path, monkeypatch):
    commands = []

    def run(command, purpose):
        assert purpose == f"install {name}"
        commands.append(command)
        (tmp_path / name).mkdir(exist_ok=True)
        return "python3.11\n"

    monkeypatch.setattr(children, "run", run)
    python = rival_environments.install(name, str(tmp_path))
    assert python == str(tmp_path / name / "bin" / "python")
    assert commands[1][:3] == ["python3.11", "-m", "venv"]
    rival = rival_environments.RIVALS[name]
    installed = [argument for command in commands[2:] for argument in command if "==" in argument]
    assert installed == [*rival.packages, *rival.alone]
    count = len(commands)
    assert rival_environments.install(name, str(tmp_path)) == python
    assert len(commands) == count


def test_what_failed_is_tried_again(tmp_path, monkeypatch):
    def fail(command, purpose):
        raise children.ChildError(purpose)

    monkeypatch.setattr(children, "run", fail)
    for _ in range(2):
        with pytest.raises(children.ChildError, match="install kfac-jax"):
            rival_environments.install("kfac-jax", str(tmp_path))


@pytest.mark.parametrize("name", rival_environments.RIVALS)
@pytest.mark.parametrize("kind", ["steps", "losses"])
def test_there_is_a_program(name, kind):
    _, *options, program, argument = rival_environments.command(name, "python", kind, "convnet")
    assert options == ["-E", "-s"]
    assert (children.ROOT / program).exists()
    assert argument == "convnet"
