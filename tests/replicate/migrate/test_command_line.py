"""`python -m replicate.migrate`: output, exit codes, and messages."""

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replicate.exit_codes import ExitCode
from replicate.migrate.__main__ import main

ROOT = Path(__file__).parents[3]
OLD = "import tensorflow as tf\nc = tf.estimator.RunConfig()\n"
NEW = "import tensorflow.compat.v1 as tf\nimport replicate\nc = replicate.RunConfig()\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(OLD)
    return path


def test_diff_can_be_applied_and_files_stay(program, capsys):
    assert main(["train.py"]) == ExitCode.DONE
    assert program.read_text() == OLD
    out, err = capsys.readouterr()
    assert out.startswith("--- train.py\n+++ train.py\n@@ -1,2 +1,3 @@\n-import tensorflow as tf\n")
    assert "\033" not in out
    assert err == "1 file, 2 changes, 0 left for you; --write makes the changes\n"
    subprocess.run(["patch", "-p0"], input=out.encode(), check=True, capture_output=True)
    assert program.read_text() == NEW


def test_write_changes_the_files_once(program, capsys):
    for counts in ("1 file, 2 changes", "0 files, 0 changes"):
        assert main(["--write", "."]) == ExitCode.DONE
        assert program.read_text() == NEW
        assert capsys.readouterr() == ("", f"{counts}, 0 left for you\n")


def test_places_of_what_is_left_are_those_of_the_files(program, capsys):
    program.write_text(f"{OLD}x = tf.contrib.bigtable\n")
    told = "Left for you:\n  train.py:{}:5: tf.contrib.bigtable: It has no counterpart here.\n"
    for arguments, line in (([], 3), (["--write"], 4), (["--explain"], 4)):
        assert main([*arguments, "train.py"]) == ExitCode.LEFT_TO_DO
        assert told.format(line) in capsys.readouterr().err


@pytest.mark.parametrize(("mode", "place"), [(0o000, "locked"), (0o444, "locked/model.py")])
@pytest.mark.parametrize("given", [".", "locked"])
def test_folders_that_cannot_be_read_are_left(program, capsys, given, mode, place):
    """Those that cannot be listed, and those that can, but whose files cannot be opened."""
    folder = program.parent / "locked"
    folder.mkdir()
    (folder / "model.py").write_text(OLD)
    folder.chmod(mode)
    program.parent.chmod(0o755)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # Root may read everything.
    try:
        code = main([given])
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
    assert code == ExitCode.LEFT_TO_DO
    err = capsys.readouterr().err
    assert f"Left for you:\n  {place}:1:1: it cannot be read: Permission denied.\n" in err
    assert f"{1 if given == '.' else 0} file" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("if 1:\nx = 'y'\n", "train.py:2:1: It is not Python 3 (expected an indented block"),
        ("# coding: nonsense\n", "train.py:1:1: its encoding is wrong: unknown encoding"),
        (
            "import tensorflow as tf\ntf.optimizers.Adam()\n",
            "train.py:2:1: tf.optimizers.Adam: This is a program of TensorFlow 2, which stays",
        ),
    ],
)
def test_other_files_are_told_and_stay(program, capsys, text, told):
    program.write_text(text)
    assert main(["--write", "train.py"]) == ExitCode.LEFT_TO_DO
    assert program.read_text() == text
    assert told in capsys.readouterr().err


def test_program_of_python_2_needs_fissix(program, capsys, monkeypatch):
    for module in ("replicate.migrate.python2", "replicate.migrate.command"):
        monkeypatch.setattr(f"{module}.is_installed", lambda: False)
    program.write_text("print 'x'\n")
    assert main(["--write", "train.py"]) == ExitCode.LEFT_TO_DO
    assert "If it is Python 2, this translates it with fissix: pip" in capsys.readouterr().err


PYTHON_2 = """# A program.
import model
import numpy as np
import tensorflow as tf

print 7 / 2, [i for i in xrange(3)], np.float, model.half(5)
print tf.estimator.ModeKeys.TRAIN
"""
PYTHON_3 = """# A program.
import model
import numpy as np
import tensorflow.compat.v1 as tf
import replicate

tf.disable_v2_behavior()

print(old_div(7, 2), [i for i in range(3)], float, model.half(5))
print(replicate.ModeKeys.TRAIN)
"""
HELPERS = "from replicate.compat.python2 import old_div\n"


@pytest.mark.skipif(importlib.util.find_spec("fissix") is None, reason="needs fissix")
def test_program_of_python_2_is_translated(program, capsys):
    program.write_bytes(PYTHON_2.replace("\n", "\r\n").encode())
    helper = program.with_name("model.py")
    helper.write_text("def half(x):\n    return x / 2\n")
    assert main(["--write", "--python2", "."]) == ExitCode.DONE
    expected = PYTHON_3.replace("import model\n", f"{HELPERS}import model\n", 1)
    assert program.read_bytes().decode() == expected.replace("\n", "\r\n")
    assert helper.read_text() == f"{HELPERS}def half(x):\n    return old_div(x, 2)\n"
    assert ", 0 left for you" in capsys.readouterr().err
    assert main(["--write", "."]) == ExitCode.DONE
    assert program.read_bytes().decode() == expected.replace("\n", "\r\n")


def test_read_only_file_is_told_and_stays_and_differences_are_explained(program, capsys):
    program.chmod(0o444)
    assert main(["--write", "--explain", "train.py"]) == ExitCode.LEFT_TO_DO
    assert program.read_text() == OLD
    told = capsys.readouterr().err
    assert "Different from before:\n  tf.estimator.RunConfig: " in told
    assert "  train.py:1:1: It is read-only, and stays as it is.\n" in told


BAD = {
    "deep.ipynb": b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "null.ipynb": b'{"cells": [{"cell_type": "code", "source": null}]}',
    "minus.py": b"x = " + b"-" * 20_000 + b"1",
    "joined.py": b"x = " + b" and ".join([b"a"] * 20_000),
    "elif.py": b"if a: pass\n" + b"elif b: pass\n" * 310,
    "strings.py": b"x = (" + b"'a' " * 1000 + b")",
    "parentheses.py": b"x = " + b"(" * 5000 + b")" * 5000,
    "coding.py": b"# coding: hex\n",
    "null.py": b"x = 1\0",
    "surrogate.py": b"# coding: utf-7\nx = '+2AA-'",
    "large.py": b"#" * (2**20 + 1),
}
"""Files that cannot be rewritten."""


def test_bad_files_are_told_and_the_rest_is_written(program, capsys, monkeypatch):
    for name, data in BAD.items():
        program.with_name(name).write_bytes(data)
    program.with_name("link.py").symlink_to("nothing")
    program.with_name("folder.py").mkdir()
    os.mkfifo(program.with_name("pipe.py"))
    other = program.with_name(os.fsdecode(b"\xff.py"))
    other.write_text(OLD)
    assert main(["--write", ".", "link.py", "pipe.py"]) == ExitCode.LEFT_TO_DO
    assert program.read_text() == other.read_text() == NEW
    told = capsys.readouterr().err
    for name in (*BAD, "link.py", "pipe.py"):
        assert f"  {name}:" in told, name
    assert f"{len(BAD) + 2} left for you" in told
    assert "please report" not in told
    other.write_text(OLD)
    for encoding, name in (("utf-8", b"\xff.py"), ("ascii", b"\\udcff.py")):
        output = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))
        assert main([other.name]) == ExitCode.DONE
        assert output.getvalue().startswith(b"--- " + name)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.py"], "replicate.migrate: there is no file or folder 'nothing.py'.\n"),
        (["empty"], "replicate.migrate: there is no Python file or notebook in empty.\n"),
        ([], "the following arguments are required: PATH"),
        (["--nonsense", "train.py"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_arguments(program, capsys, arguments, told):
    (program.parent / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err


def test_missing_libcst_is_one_sentence(program, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "libcst" else find(name)
    )
    with pytest.raises(SystemExit) as ended:
        main(["train.py"])
    assert ended.value.code == ExitCode.BAD_INPUT
    told = "replicate.migrate: libcst is not installed: pip install libcst.\n"
    assert capsys.readouterr().err == told


def test_help_loads_neither_tensorflow_nor_libcst():
    code = (
        "import sys; from replicate.migrate.__main__ import main\n"
        "try: main(['--help'])\n"
        "finally: assert not {'tensorflow', 'libcst'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--write" in done.stdout


def test_commands_import_nothing_from_the_folder_of_a_program(program):
    for name in ("argparse", "libcst", "ipaddress", "webbrowser"):
        program.with_name(f"{name}.py").write_text("raise SystemExit('imported')")
    for command in (["migrate", "train.py"], ["report", "--help"], ["launch", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", f"replicate.{command[0]}", command[1]],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
