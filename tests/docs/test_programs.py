"""Programs of the guides can be taken away as files, and run without the development tools."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "howto"
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_programs_are_files_that_hide_no_module(load, tmp_path):
    load("tools/howto_programs.py").main(tmp_path / "new")
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    guides = [PROGRAM.findall(page.read_text()) for page in GUIDES.glob("*.md")]
    assert sorted(written.values()) == sorted(program for found in guides for program in found)
    keras = PROGRAM.findall((GUIDES / "kfac_keras.md").read_text())
    assert [written["kfac_keras_1.py"], written["kfac_keras_2.py"]] == keras
    assert [name for name in written if importlib.util.find_spec(name.removesuffix(".py"))] == []


@pytest.mark.broad
def test_programs_are_tried_in_empty_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "tools")
    try_programs = importlib.import_module("try_programs")
    monkeypatch.setattr(try_programs, "_PRELOADED", ["json"])  # These programs need no TensorFlow.
    (tmp_path / "good.py").write_text("import os; assert os.listdir() == ['output']")
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    for left_out, code in (("bad.py", 0), ("", 1), ("bad.py,good.py", 1)):
        monkeypatch.setattr(sys, "argv", ["", str(tmp_path), f"--except={left_out}"])
        assert try_programs.main() == code
    alone, both, none = re.split(r".* programs ran\n", capsys.readouterr().out)[:3]
    assert re.fullmatch(r" *\S+ s  good\.py\n", alone)
    assert re.match(r" *\S+ s  bad\.py: exit code 1\n", both)
    assert "ModuleNotFoundError: No module named 'nothing_of_this_name'" in both
    assert re.search(r" *\S+ s  good\.py\n$", both)
    assert none == "", "no program ran, which is an error"
