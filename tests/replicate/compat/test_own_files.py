"""Files of programs are told from those of installed packages."""

import os
import sysconfig
from pathlib import Path

import pytest

from replicate.compat.own_files import is_own_file, is_own_module

ROOT = Path(__file__).parents[3]


def test_own_files_are_those_of_no_package(tmp_path):
    assert is_own_file(str(tmp_path / "model.py"))
    assert not is_own_file(os.__file__)
    assert not is_own_file(sysconfig.get_path("purelib") + "/package/model.py")
    assert not is_own_file(str(tmp_path / "lib" / "dist-packages" / "model.py"))
    assert not is_own_file(str(ROOT / "replicate" / "spec.py"))
    assert is_own_file(str(ROOT / "examples" / "program.py"))


def test_libraries_that_the_runner_repairs_are_packages_wherever_they_lie(tmp_path):
    for name in ("tf_slim.ops", "tensorflow", "tf_keras.layers"):
        path = tmp_path / f"{name.replace('.', '/')}.py"
        assert is_own_file(str(path))
        assert not is_own_module(name, str(path))
    assert is_own_module("slim.nets", str(tmp_path / "slim" / "nets.py"))


@pytest.mark.parametrize(
    ("files", "is_package"),
    [
        ({"My_Lib-1.dist-info/RECORD": "lib/__init__.py,,\nlib/deep/a.py,,\n"}, True),
        ({"other-1.dist-info/RECORD": "other.py,,\n"}, False),
        ({"lib-1-py3.11.egg-info/top_level.txt": "lib\n"}, True),
        ({"lib-1-py3.11.egg-info": "Metadata-Version: 1.0\nName: lib\nVersion: 1\n"}, True),
        ({"lib.egg-info/top_level.txt": "lib\n", "setup.py": ""}, False),
    ],
)
def test_what_has_a_distribution_beside_it_is_a_package(tmp_path, files, is_package):
    for name, text in files.items():
        path = tmp_path / name
        if "/" in name:
            path.parent.mkdir()
            metadata = "Metadata-Version: 2.1\nName: some-name\nVersion: 1\n"
            (path.parent / "METADATA").write_text(metadata)
            (path.parent / "PKG-INFO").write_text(metadata)
        path.write_text(text)
    for path in ("lib/__init__.py", "lib/deep/a.py", "other.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert is_own_file(str(tmp_path / "lib" / "deep" / "a.py")) != is_package
    assert is_own_file(str(tmp_path / "train.py"))
