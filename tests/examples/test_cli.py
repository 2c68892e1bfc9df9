"""Exit codes, one-line answers and the printed lines of the programs, in small programs."""

import subprocess
import sys
import textwrap

import pytest

from examples import cli

HEAD = """
    '''Prints a number.'''
    import sys
    from absl import flags
    from examples import cli
    flags.DEFINE_integer("number", 3, "What to print.", 0)
"""


def run_program(tmp_path, body, *arguments):
    """Runs HEAD, a main with the given body, and cli.run(main) as a module of its own."""
    text = textwrap.dedent(HEAD) + "def main():\n" + textwrap.indent(textwrap.dedent(body), "    ")
    (tmp_path / "small.py").write_text(text + "\ncli.run(main)\n")
    return subprocess.run(
        [sys.executable, "-c", BOOT.format(folder=str(tmp_path)), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


BOOT = """
import runpy, sys
sys.path.insert(0, {folder!r})
runpy.run_module("small", run_name="__main__", alter_sys=True)
"""


def test_a_program_that_ends_well_exits_with_0(tmp_path):
    done = run_program(tmp_path, "print(flags.FLAGS.number)", "--number=5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_the_docstring_and_the_flags_and_exits_with_0(tmp_path, flag):
    done = run_program(tmp_path, "print('ran')", flag)
    assert done.returncode == 0
    assert "Prints a number." in done.stdout
    assert "--number" in done.stdout
    assert "ran" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--number=x"], "'x'; it takes a non-negative integer"),
        (["--number=-1"], "-1"),
        (["--numbr=1"], "numbr"),
        (["stray"], "stray"),
    ],
)
def test_wrong_arguments_get_one_line_and_exit_code_2(tmp_path, arguments, message):
    done = run_program(tmp_path, "print('ran')", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("error", ["ValueError", "OSError"])
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, error):
    body = f"with cli.bad_input():\n    raise {error}('first\\nsecond')"
    done = run_program(tmp_path, body)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "small: first second\n"


def test_other_errors_are_bugs_with_a_traceback_and_exit_code_1(tmp_path):
    done = run_program(tmp_path, "raise ValueError('a bug')")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_an_interrupt_before_training_is_one_line_and_exit_code_130(tmp_path):
    done = run_program(tmp_path, "raise KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr.count("\n") == 1


def test_fail_uses_the_given_code(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.fail("training\n diverged", cli.DIVERGED)
    assert caught.value.code == 3
    assert capsys.readouterr().err.endswith(": training diverged\n")


def test_of_a_long_message_the_beginning_and_the_end_are_shown(capsys):
    names = ", ".join(f"layer{number}/weights" for number in range(500))
    with pytest.raises(SystemExit):
        cli.fail(f"Cannot load it: it lacks {names}. Take another --model_dir.", 2)
    line = capsys.readouterr().err
    assert len(line) < 1000
    assert "it lacks layer0/weights, layer1/weights," in line
    assert line.endswith("layer499/weights. Take another --model_dir.\n")
    assert " … layer" in line


def test_show_aligns_labels_and_continues_long_values_in_the_same_column(capsys):
    cli.show("model", "one\ntwo")
    cli.show("batch", 128)
    model, rest, batch = capsys.readouterr().out.splitlines()
    assert model.index("one") == rest.index("two") == batch.index("128")


def test_tensorflow_is_imported_silently_and_its_errors_are_not_hidden(tmp_path):
    done = run_program(tmp_path, "cli.import_tensorflow()\nprint('tensorflow' in sys.modules)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'why it failed')\n1 / 0\n")
    done = run_program(tmp_path, "cli.import_tensorflow()")
    assert done.returncode == 1
    assert "why it failed" in done.stderr


@pytest.mark.parametrize("code", [0, 143])
def test_a_program_ends_at_once_while_a_call_hangs(code):
    program = f"""
import sys, threading
from examples import cli
from replicate.estimator import session

def main():
    session._start(threading.Event().wait)  # A daemon: the interpreter would not wait for it.
    print("done")
    sys.exit({code})

import atexit
atexit.register(print, "the interpreter's own way")
sys.argv = ["program"]
cli.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, "done\n")
