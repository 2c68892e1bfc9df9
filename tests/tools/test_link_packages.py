"""tools/link_packages links what a wheel declares to need, or what two locks pin alike."""

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tools import link_packages

PURELIB = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def metadata(name, version, needs=()):
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in needs)]
    return "\n".join(["Metadata-Version: 2.1", *lines, ""])


def install(packages, name, version, needs=()):
    """Writes a package with one module and its bytecode."""
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata(name, version, needs))
    module = packages / f"{name}.py"
    module.touch()
    cached = packages / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
    cached.parent.mkdir(exist_ok=True)
    cached.touch()
    (info / "RECORD").write_text(
        f"{name}.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n../../../bin/{name},,\n"
    )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Links into a new environment; returns the names of its files."""
    packages = tmp_path / "here" / PURELIB
    install(packages, "first", "1.2", ["second[more]>=2"])
    install(packages, "second", "2.0", ["first", "third; extra == 'more'"])
    install(packages, "third", "3.0", ["absent; python_version < '3'"])
    install(packages, "other", "1.0")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "here"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(packages))
    target = tmp_path / "there" / PURELIB
    target.mkdir(parents=True)

    def linked(*arguments):
        monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "there"), *map(str, arguments)])
        assert link_packages.main() == 0
        assert all(each.samefile(packages / each.name) for each in target.glob("*.py"))
        cached = {path.name.partition(".")[0] for path in (target / "__pycache__").iterdir()}
        assert cached == {path.stem for path in target.glob("*.py")}
        return sorted(cached)

    return linked


@pytest.fixture
def wheel(tmp_path):
    def write(*needs):
        path = tmp_path / "w-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("w-1.dist-info/METADATA", metadata("w", "1", needs))
        return path

    return write


def test_wheel_gets_what_it_and_its_extras_need_and_nothing_else(run, wheel):
    path = wheel("third", "First~=1.0; extra == 'cpu'", "other; extra == 'gpu'")
    assert run("--wheel", path) == ["third"]
    assert run("--wheel", path, "--extras=cpu") == ["first", "second", "third"]


@pytest.mark.parametrize(("need", "has"), [("absent", "none"), ("first>=2", "1.2")])
def test_missing_dependency_is_named(run, wheel, need, has):
    with pytest.raises(SystemExit, match=f"w needs {need}, but the version here is {has}"):
        run("--wheel", wheel(need))


def test_pins_are_linked_that_both_locks_have_with_the_same_hashes(run, tmp_path, monkeypatch):
    pin = "{}=={} \\\n    --hash=sha256:{}\n    # via w\n"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text(
        "# made\n" + pin.format("first", "1.2", "a") + pin.format("third", "3.0", "b")
        + pin.format("other", "0.9", "c") + pin.format("second", "2.0", "d")
    )  # fmt: skip
    theirs.write_text(ours.read_text().replace("sha256:b", "sha256:e"))
    monkeypatch.setattr(link_packages, "LOCK", ours)
    assert run("--pins", theirs) == ["first", "second"]
