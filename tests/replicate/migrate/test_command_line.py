"""`python -m replicate.migrate`: output, exit codes, and messages."""

import importlib.util
import subprocess
import sys

import pytest

from replicate.exit_codes import ExitCode
from replicate.migrate.__main__ import main

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
    program.write_text(f"{OLD}x = tf.contrib.gan\n")
    told = "Left for you:\n  train.py:{}:5: tf.contrib.gan: It has no counterpart here.\n"
    for arguments, line in (([], 3), (["--write"], 4), (["--explain"], 4)):
        assert main([*arguments, "train.py"]) == ExitCode.LEFT_TO_DO
        assert told.format(line) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("print 'x'\n", "train.py:1:1: It is not Python 3 (Missing parentheses in"),
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


def test_read_only_file_is_told_and_stays_and_differences_are_explained(program, capsys):
    program.chmod(0o444)
    assert main(["--write", "--explain", "train.py"]) == ExitCode.LEFT_TO_DO
    assert program.read_text() == OLD
    told = capsys.readouterr().err
    assert "Different from before:\n  tf.estimator.RunConfig: " in told
    assert "  train.py:1:1: It is read-only, and stays as it is.\n" in told


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
    told = (
        "replicate.migrate: libcst is not installed: pip install 'replicate-model-fn[migrate]'.\n"
    )
    assert capsys.readouterr().err == told


def test_help_loads_neither_tensorflow_nor_libcst():
    code = (
        "import sys; from replicate.migrate.__main__ import main\n"
        "try: main(['--help'])\n"
        "finally: assert not {'tensorflow', 'libcst'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--write" in done.stdout
