import shutil
import sys
from pathlib import Path

import pytest

from replicate.report import __main__ as program


@pytest.fixture
def libraries():
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")


def test_report_writes_pages_and_pictures(libraries, model_dir, tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(program.webbrowser, "open", lambda url: opened.append(url) or True)
    folder = tmp_path / "small"
    shutil.copytree(model_dir, folder)
    assert program.main([str(folder), "--open"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (f"{folder}/report.html\n{folder}/report.md\n", "")
    assert opened == [f"file://{folder}/report.html"]
    assert "<title>Report of small</title>" in (folder / "report.html").read_text()
    text = (folder / "report.md").read_text()
    assert text.startswith("# Report of small\n")
    pictures = ("report.png", "report_kfac.png", "report_by_time.png", "report_kfac_by_time.png")
    for name in pictures:
        assert f"]({name})" in text
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_several_directories_give_one_page(libraries, model_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(program.webbrowser, "open", lambda url: False)
    for place in ("x/a", "x/b", "y/b"):
        shutil.copytree(model_dir, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    assert program.main(["x/a", "x/b", "--open"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path}/x/comparison.html\n"
    assert "no browser was found" in printed.err
    assert program.main(["x/a", "x/b", "y/b"]) == 0
    assert capsys.readouterr().out == "comparison.html\n"
    assert "<th>x/a</th><th>x/b</th><th>y/b</th>" in Path("comparison.html").read_text()
    assert not list(tmp_path.rglob("report*"))
    assert program.main(["x/a", f"{tmp_path}/x/b", "--output=z.html"]) == 0
    assert "<th>a</th><th>b</th>" in Path("z.html").read_text()
    assert program.main(["x/a", "--output=absent/z.html"]) == 2
    assert "absent/z.html" in capsys.readouterr().err


def test_links_out_of_the_directory_are_not_written_to(
    libraries, model_dir, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(program, "draw", lambda *panels, **settings: None)
    folder, other = tmp_path / "small", tmp_path / "other"
    shutil.copytree(model_dir, folder)
    other.write_text("mine")
    for name in ("report.html", "report.md", "report.png", "report_kfac_by_time.png"):
        (folder / name).symlink_to(other)
        assert program.main([str(folder)]) == 2
        told = f"{folder}/{name} is a link out of its directory: remove it"
        assert capsys.readouterr().err == f"replicate.report: {told}\n"
        assert other.read_text() == "mine"
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected one model directory or several, got none: see --help"),
        (["--d=a"], "expected directories, --open or --output=FILE, got --d=a: see --help"),
        (["/absent"], "there is no directory /absent: correct the path"),
        (["/", "/."], "a directory is given twice: / /.; leave one of them out"),
    ],
)
def test_wrong_arguments_give_a_one_line_error(arguments, told, capsys):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err == f"replicate.report: {told}\n"


def test_what_is_missing_is_told_in_one_line(libraries, tmp_path, capsys, monkeypatch):
    assert program.main([str(tmp_path)]) == 2
    told = f"there are no event files with curves in {tmp_path}: give a model_dir"
    assert capsys.readouterr().err == f"replicate.report: {told}\n"
    assert list(tmp_path.iterdir()) == []
    for library in program._LIBRARIES:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, library, None)
            assert program.main([str(tmp_path)]) == 2
        told = f"{library} is not installed: pip install {library}"
        assert capsys.readouterr().err == f"replicate.report: {told}\n"


def test_help_imports_neither_the_libraries_nor_tensorflow(run_command):
    code = "import sys; sys.modules.update(dict.fromkeys(['tensorflow', 'matplotlib']));"
    code += "from replicate.report.__main__ import main; sys.exit(main(['--help']))"
    done = run_command("-c", code)
    assert done.stderr == ""
    assert done.stdout.startswith("python -m replicate.report DIR writes")
