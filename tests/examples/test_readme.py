"""The README's program runs as it stands, with the optimizer it shows and with K-FAC."""

import pathlib
import re
import runpy

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAM, KFAC = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def with_kfac():
    """The program, its optimizer replaced by the README's second block."""
    (line,) = re.findall(r"    optimizer = .*\n", PROGRAM)
    return "import kfac\n" + PROGRAM.replace(line, KFAC)


def test_program_trains_and_leaves_a_checkpoint(tmp_path, run_python):
    done = run_python(PROGRAM, folder=tmp_path)
    assert done.code == 0, done.err
    check_run(tmp_path, done.err)


def test_program_trains_with_kfac(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(with_kfac())
    runpy.run_path(str(tmp_path / "program.py"), run_name="__main__")
    check_run(tmp_path, capsys.readouterr().err)


def check_run(folder, progress):
    assert (folder / "runs/readme/model.ckpt-200.index").exists()
    losses = [float(loss) for loss in re.findall(r"loss ([\d.e+-]+)", progress)]
    assert losses[-1] < 1.0


def test_program_is_at_most_15_lines():
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 15


def test_readme_is_at_most_120_lines():
    assert README.count("\n") <= 120
