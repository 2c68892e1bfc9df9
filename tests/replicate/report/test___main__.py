import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replicate.report import __main__ as program

ROOT = Path(__file__).resolve().parents[3]


def test_report_writes_page_and_pictures(model_dir, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "small"
    shutil.copytree(model_dir, folder)
    assert program.main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}/report.md\n"
    text = (folder / "report.md").read_text()
    assert text.startswith("# Report of small\n")
    for name in ("report.png", "report_kfac.png"):
        assert f"]({name})" in text
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected one model directory, got nothing: see --help"),
        (["a", "b"], "expected one model directory, got a b: see --help"),
        (["--dir=a"], "expected one model directory, got --dir=a: see --help"),
        (["/absent"], "there is no directory /absent: correct the path"),
    ],
)
def test_wrong_arguments_give_a_one_line_error(arguments, told, capsys):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err == f"replicate.report: {told}\n"


def test_a_directory_without_events_gives_a_one_line_error(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert program.main([str(tmp_path)]) == 2
    told = f"there are no event files with curves in {tmp_path}: give a model_dir"
    assert capsys.readouterr().err == f"replicate.report: {told}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["tensorboard", "matplotlib"])
def test_a_missing_library_gives_one_line_with_the_pip_command(
    library, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(program, "_LIBRARIES", (library,))
    monkeypatch.setitem(sys.modules, library, None)
    assert program.main([str(tmp_path)]) == 2
    told = f"{library} is not installed: pip install 'replicate-model-fn[examples]'"
    assert capsys.readouterr().err == f"replicate.report: {told}\n"


def test_help_imports_neither_the_libraries_nor_tensorflow():
    code = "import sys; sys.modules.update(dict.fromkeys(['tensorflow', 'matplotlib']));"
    code += "from replicate.report.__main__ import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("python -m replicate.report DIR writes")
