"""tools/published runs public programs from git, and writes the table of the docs."""

import datetime
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.published import __main__ as command
from tools.published.equality import equality
from tools.published.page import with_rows
from tools.published.program import ESTIMATOR_LOSS, Program, set_up
from tools.published.results import results_of
from tools.published.runs import Run, Runner, Way
from tools.published.sources import AbsentSourcesError, Sources, commit_of

LEARNS = """
import random
import sys
print(sys.argv[1:], open("data.txt").read())
print("loss = %.6f" % random.random(), "size 7" if SIZE == 7 else "")
"""
FAILS = """
import sys
print("loss = 0.5")
raise ValueError("no | in %s/x" % sys.path[0])
"""
PAGE = """# Programs

<!-- versions -->
<!-- end of versions -->

<!-- programs -->
| [old](https://github.com/a/b/tree/0) | all | 1 | – | 1 | |
| [gone](https://github.com/a/b/tree/0) | all | 1 | – | 1 | |
<!-- end of programs -->
"""


def git(folder, *arguments):
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def mirror(needs_git, tmp_path_factory):
    """A folder of mirrors with one repository, and its commit."""
    folder = tmp_path_factory.mktemp("mirrors")
    repository = folder / "a+b" / "repo"
    (repository / "sub").mkdir(parents=True)
    git(repository, "init", "--quiet")
    (repository / "sub" / "learns.py").write_text(f"SIZE = 60000{LEARNS}")
    (repository / "sub" / "fails.py").write_text(FAILS)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "first")
    return folder, git(repository, "rev-parse", "HEAD")


def program(name, commit, file, **settings):
    def data(folder):
        (folder / "data.txt").write_text("rows")

    given = {"has_estimator": False, "folder": "sub", **settings}
    return Program(name, "a/b", commit, "random", (file, "{data}"), data, **given)


def test_programs_run_and_the_table_tells_how(mirror, tmp_path, monkeypatch, capsys):
    folder, commit = mirror
    shows = (("sub/learns.py", "60000", "7"), ("sub/learns.py", '"data.txt"', '"{data}/data.txt"'))
    programs = (
        program("learns", commit, "learns.py", settings=shows, has_estimator=True),
        program("fails", commit, "fails.py"),
        program("old", commit, "fails.py"),
        program("absent", "0" * 40, "learns.py"),
        program("needs", commit, "learns.py", packages=("no_such_module",)),
    )
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(command, "PROGRAMS", programs)
    monkeypatch.setattr(command, "PAGE", page)
    names = ("learns", "fails", "absent", "needs")
    only = [f"--only={name}" for name in names]
    assert command.main([f"--mirrors={folder}", "--write", *only]) == 1
    url = f"https://github.com/a/b/tree/{commit[:12]}"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| [")]
    assert rows == [
        f"| [learns]({url}) | random | 0.13436 | 0.13436 | 0.13436 | the same digits (1) | |",
        f"| [fails]({url}) | random | stops | – | stops | – | ValueError: no \\| in sub/x |",
        "| [old](https://github.com/a/b/tree/0) | all | 1 | – | 1 | |",
    ]
    told = capsys.readouterr().out
    assert "needs: skipped, it needs no_such_module" in told
    assert "absent: skipped, git ls-tree: " in told
    assert "1 of 2 programs ran to their end, 2 skipped" in told
    count = "2 of 3 programs, from 1 repositories, ran to their end in every way that they have. "
    equal = "Rewritten against one tower: the same digits 1. "
    assert f"\n{count}{equal}Last written on " in page.read_text()
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"Last written on {datetime.date.today().day} " in page.read_text()
    assert f"Python {version}, tensorflow-cpu " in page.read_text()


def test_lines_of_progress_count_at_the_last_step_and_repeated_lines_once():
    passing = "train  step 3/44  1.5 step/s  loss 9.5\ntrain  step 7  1.5 step/s  loss 8.5\n"
    last = "train  step 4/4  1.5 step/s  6 ex/s  loss 2.1  ETA 00:00\n"
    final = "INFO:tensorflow:Loss for final step: 2.125.\nI11 a.py] Loss for final step: 2.125.\n"
    assert results_of(ESTIMATOR_LOSS, passing + last + final) == (2.1, 2.125)
    assert results_of(ESTIMATOR_LOSS, passing) == (9.5, 8.5)


def test_equality_is_told_with_the_noise_of_one_way():
    def told(rewritten, again=None):
        runs = {Way.ONE: Run((4.0, 2.0)), Way.REWRITTEN: Run(rewritten)}
        return equality(runs if again is None else {**runs, Way.AGAIN: Run(again)})

    nan = float("nan")
    assert equality({Way.ONE: Run((nan, 1.0)), Way.REWRITTEN: Run((nan, 1.0))}) == (
        "the same digits (2)"
    )
    assert told((4.0, 2.000001)) == "to 1e-6"
    assert told((4.0, 2.5), (5.0, 2.0)) == "noise: 12 %; one tower again 25 %"
    assert told((4.0, 2.5), (4.0, 2.0)) == told((4.0, 2.5)) == "other numbers: 12 %"
    assert told((4.0, nan)) == "other numbers: nan or another count"
    assert told((4.0,), (4.0, 2.0)) == "other numbers: nan or another count"
    assert equality({Way.ONE: Run((), "stops"), Way.REWRITTEN: Run((1.0,))}) == "–"


def test_a_program_runs_again_if_the_rewritten_one_prints_other_numbers(monkeypatch):
    results = iter([1.0, 2.0, 1.0, 3.0])
    monkeypatch.setattr(Runner, "_run", lambda *_: Run((next(results),)))
    runs = Runner(Sources(Path())).run(program("a", "0", "a.py"))
    assert [(way.value, run.results[0]) for way, run in runs.items()] == [
        ("one tower", 1.0),
        ("rewritten", 2.0),
        ("one tower again", 3.0),
    ]


def test_loading_keras_draws_no_random_number(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        Path(find_spec("tools.published.seeds").origin).read_text()
    )
    (tmp_path / "keras.py").write_text("import random\ndrawn = random.random()\n")
    code = "import random, keras; print(keras.drawn, random.random())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.split() == [str(random.Random(1).random())] * 2


def test_a_host_gives_one_commit(mirror, tmp_path):
    folder, commit = mirror
    host = tmp_path / "host" / "a"
    host.mkdir(parents=True)
    (host / "b").symlink_to(folder / "a+b" / "repo")
    sources = Sources(tmp_path / "cache", host=f"file://{host.parent}")
    for name in ("first", "second"):
        sources.write("a/b", commit, tmp_path / name)
        assert (tmp_path / name / "sub" / "fails.py").read_text() == FAILS
    assert commit_of(folder / "a+b" / "repo") == commit[:12]
    assert commit_of(folder) == ""
    with pytest.raises(AbsentSourcesError, match=r"^git fetch: "):
        sources.write("a/c", commit, tmp_path / "third")
    with pytest.raises(AbsentSourcesError, match=r"^there is no mirror a\+c$"):
        Sources(tmp_path, mirrors=folder).write("a/c", commit, tmp_path / "third")


def test_the_page_has_the_day_and_the_commit():
    page = with_rows(PAGE, [], [], datetime.date(2026, 1, 2), "abc")
    assert "Last written on 2 January 2026, at commit abc, with Python " in page


def test_mistakes_in_programs_and_pages_are_told(mirror, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "learns.py").write_text(LEARNS)
    wrong = program("learns", "0", "learns.py", settings=(("sub/learns.py", "absent", "7"),))
    with pytest.raises(ValueError, match=r"learns: sub/learns.py has no 'absent'"):
        set_up(wrong, tmp_path, {})
    with pytest.raises(ValueError, match="no marks"):
        with_rows("# Programs", [], [], datetime.date.today())
    with pytest.raises(SystemExit):
        command.main(["--only=no program has this name"])
