"""Command line of the programs: exit codes, printed lines, flags, model directory."""

import os
import subprocess
import sys
import textwrap
import threading
from unittest import mock

import pytest
from absl import flags
from absl.testing import flagsaver

import replicate
from examples import cli
from replicate.estimator.cluster import server_session

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


@pytest.mark.parametrize(
    ("body", "arguments", "code", "out", "err"),
    [
        ("print(flags.FLAGS.number)", "--number=5", 0, "5", ""),
        ("", "--help", 0, "Prints a number.", ""),
        ("", "-h", 0, "--number", ""),
        ("", "--number=x", 2, "", "'x'; it takes a non-negative integer"),
        ("", "stray", 2, "", "stray"),
        ("with cli.bad_input():\n    raise ValueError('a\\nb')", "", 2, "", "small: a b"),
        ("with cli.bad_input():\n    raise OSError('a\\nb')", "", 2, "", "small: a b"),
        ("raise KeyboardInterrupt", "", 130, "", "stopped before training began"),
        ("raise ZeroDivisionError", "", 1, "", "Traceback (most recent call last):"),
    ],
)
def test_program_ends_with_a_code_and_one_line(tmp_path, body, arguments, code, out, err):
    done = run_program(tmp_path, body or "print('ran')", *arguments.split())
    assert done.returncode == code
    assert out in done.stdout
    assert "ran" not in done.stdout
    assert code == 1 or done.stderr.count("\n") == bool(err)
    assert err in done.stderr
    assert not (out and err)


def test_of_a_long_message_the_beginning_and_the_end_are_shown(capsys):
    names = ", ".join(f"layer{number}/weights" for number in range(500))
    with pytest.raises(SystemExit):
        cli.fail(f"Cannot load it: it lacks {names}. Take another --model_dir.", 2)
    line = capsys.readouterr().err
    assert len(line) < 1000
    assert "it lacks layer0/weights, layer1/weights," in line
    assert line.endswith("layer499/weights. Take another --model_dir.\n")
    assert " … layer" in line


TALKING = """
import os
from unittest import mock

os.write(2, b"registering a factory for the third time")
print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
compat = mock.Mock()
compat.v1.logging.set_verbosity = print
compat.v1.logging.ERROR = "errors only"
"""


def test_lines_of_an_import_are_hidden_unless_it_fails(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    (tmp_path / "tensorflow.py").write_text(TALKING)
    done = run_program(tmp_path, "cli.import_tensorflow()")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\nerrors only\n", "")
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'why it failed')\n1 / 0\n")
    done = run_program(tmp_path, "cli.import_tensorflow()")
    assert done.returncode == 1
    assert "why it failed" in done.stderr


@pytest.fixture
def run_flags():
    with flagsaver.flagsaver():
        cli.define_run_flags(model_dir="here", batch_size=6, train_steps=5, eval_every_steps=4)
        cli.define_positive("rate", 0.5, "A rate.")
        cli.define_positive("limit", None, "A limit.")
        cli.define_momentum(0.9, "A momentum.")
        cli.define_learning_rate({"adam": 0.01, "sgd": 0.5})
        cli.define_hidden_units(["16"])
        yield flags.FLAGS


def test_flags_have_the_defaults_of_the_program_or_the_given_values(run_flags):
    run_flags(["program"])
    settings = cli.read_run_flags()
    assert (settings.model_dir, settings.batch_size) == ("here", 6)
    assert (settings.train_steps, settings.eval_every_steps) == (5, 4)
    assert settings.num_towers is settings.devices is settings.save_every_steps is None
    assert (settings.profile_steps, settings.dry_run, settings.steal) == (None, False, False)
    assert run_flags["limit"].value is None
    assert run_flags["learning_rate"].help == "Default: 0.01 for adam, 0.5 for sgd."
    names = {flag.name for flag in run_flags.get_key_flags_for_module(__name__)}
    assert {"model_dir", "batch_size", "rate", "momentum"} <= names

    run_flags(["program", "--devices=/cpu:0,/cpu:1", "--save_every_steps=3", "--progress=off"])
    settings = cli.read_run_flags()
    assert settings.devices == ["/cpu:0", "/cpu:1"]
    assert (settings.save_every_steps, settings.progress) == (3, "off")
    run_flags(["program", "--profile_steps=20:24", "--dry_run", "--steal"])
    settings = cli.read_run_flags()
    assert (settings.profile_steps, settings.dry_run, settings.steal) == ((20, 24), True, True)


def test_numbers_out_of_range_are_refused(run_flags):
    for name, wrong in (
        ("rate", ("0", "nan", "inf")),
        ("limit", ("-1",)),
        ("momentum", ("1", "nan")),
        ("seed", ("x", "9223372036854775807")),
        ("profile_steps", ("20",)),
        ("batch_size", ("65537",)),
        ("hidden_units", ("8,70000", "9" * 5000)),
    ):
        for value in wrong:
            with pytest.raises(flags.IllegalFlagValueError, match=name):
                run_flags(["program", f"--{name}={value}"])


def test_wrong_argument_is_one_line(run_flags, monkeypatch, capsys):
    for argument, message in (
        ("--rate=-1", "rate=-1"),
        ("--numbr=1", "Unknown command line flag 'numbr'"),
        (f"--numbe{'x' * 5000}", "Unknown command line flag: --numbexxx"),
        ("--nohelp=1", "--nohelp=1 does not take an argument"),
        ("--rate=\x7f", r"--rate=\x7f"),
    ):
        monkeypatch.setattr(sys, "argv", ["program", argument])
        with pytest.raises(SystemExit) as end:
            cli.parse_flags()
        line = capsys.readouterr().err
        assert (end.value.code, line.count("\n")) == (2, 1)
        assert message in line


def test_given_flags_without_effect_are_refused(run_flags):
    def unused(*, met=False):
        return cli.flags_without_effect(["rate", "steal"], needs="--optimizer=kfac", met=met)

    run_flags(["program"])
    assert unused() == []
    cli.refuse_unused_flags(unused(), unused())
    run_flags(["program", "--rate=0.5", "--nosteal"])
    assert unused() == [
        "--rate=0.5 has no effect without --optimizer=kfac",
        "--nosteal has no effect without --optimizer=kfac",
    ]
    assert unused(met=True) == []
    with pytest.raises(ValueError, match=r"=kfac; --nosteal has .*; --x is unused: leave out"):
        cli.refuse_unused_flags(unused(), [], ["--x is unused"])


def test_directory_may_change_its_purpose_without_checkpoints(tmp_path):
    folder = tmp_path / "a" / "b"
    cli.claim_model_dir(str(folder), "one")
    cli.claim_model_dir(str(folder), "another")
    assert [path.name for path in folder.iterdir()] == ["trained_for.txt"]
    (folder / "checkpoint").touch()
    cli.claim_model_dir(str(folder), "another")
    with pytest.raises(ValueError, match=f"{folder} holds checkpoints of another, and .* is one"):
        cli.claim_model_dir(str(folder), "one")
    assert (folder / "trained_for.txt").read_text() == "another"


def test_no_directory_of_this_machine_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious")
    for model_dir, text in (
        ("file", " is a file, and must be a directory. Give another path"),
        ("file/below", ".* cannot be written"),
        ("gs://x/y", " must be a directory of this machine"),
        ("", " must be a directory of this machine"),
    ):
        with pytest.raises(ValueError, match=f"--model_dir={model_dir}{text}"):
            cli.claim_model_dir(model_dir, "one")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_errors_and_stops_of_training_end_the_program(capsys):
    estimator = mock.Mock(**{"latest_checkpoint.return_value": "runs/model.ckpt-7"})
    for error, code, message in (
        (replicate.NonFiniteError("it is NaN"), 3, "training diverged: it is NaN"),
        (replicate.CheckpointError("it is damaged"), 2, "it is damaged"),
        (replicate.ModelDirInUseError("or RunConfig(steal_model_dir=True)."), 2, "or --steal."),
        (replicate.ClusterError("ps 0 is away"), 138, "ps 0 is away"),
        (replicate.TrainingInterrupted(15, 7, "runs/model.ckpt-7"), 143, None),
        (KeyboardInterrupt(), 130, None),
    ):
        with pytest.raises(SystemExit) as end, cli.training_errors(estimator):
            raise error
        assert end.value.code == code
        printed = capsys.readouterr()
        if message is None:
            saved, command = printed.out.splitlines()
            assert saved.split() == ["saved", "runs/model.ckpt-7"]
            assert command.startswith("go on with      ")
        else:
            assert printed.err.endswith(f": {message}\n")
    with pytest.raises(ZeroDivisionError), cli.training_errors(estimator):
        raise ZeroDivisionError


def test_a_program_ends_at_once_while_a_call_hangs_in_the_runtime(monkeypatch):
    """Not in the interpreter's own way, which waits for its threads."""
    ended, answer = [], threading.Event()
    monkeypatch.setattr(os, "_exit", ended.append)
    stdout = mock.patch.object(sys, "stdout").start()
    call = server_session._start(answer.wait)
    try:
        for _ in range(2):
            with pytest.raises(SystemExit):
                cli.end_with(lambda: sys.exit(143))
            answer.set()
            call.join()
    finally:
        answer.set()
        mock.patch.stopall()
    assert ended == [143], "once, while it hung"
    assert stdout.flush.called
