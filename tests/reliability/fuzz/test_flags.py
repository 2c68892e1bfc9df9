"""Flags of the example programs: a program does what it is asked, or refuses in one line.

Each case is a command line of a program. The program runs in this process, up to the point where it
builds a graph: after that, only few cases go on, with one or two steps or a dry run.
"""

import contextlib
import functools
import io
import os
import re
import resource
import runpy
import shutil
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

import kfac
import replicate
from examples import cli, mnist, plain_training, tables

FOLDER = Path(__file__).resolve().parents[3] / "examples"
PROGRAMS = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if re.search(r"^    cli.run\(main\)$", path.read_text(), re.M)
)
NUMBERS = (
    *("0", "-1", "1", "2", "3", "4", "7", "1000", "100000", "2147483647", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + "0" * 400),
    *("", " ", "1.5", "1e3", "1e-3", "1e-320", "1e308", "1e400", "-0.0", "nan", "inf", "-inf"),
    *("0x10", "0b1", "1_000", " 2 ", "\uff11", "٣", "½", "two", "None", "true", "+2", "1,2"),
)
PATHS = (
    *("", ".", "..", "new", "new/a/b", "ü", "日 本", " ", "file", "file/below", "link", "loop"),
    *("/dev/null", "/dev/null/x", "/proc/x", "x" * 300, "a" * 100 + "/" + "b" * 100, "~", "$HOME"),
    *("-", "--", "a\nb", "ram://x", "gs://x/y", "no\tscheme", "%s", "*", "used", "digits"),
)
LISTS = (
    *("", ",", ",,", "/cpu:0", "/cpu:0,/cpu:1", "/cpu:0,/cpu:0", "/gpu:7", "cpu", "/cpu:99", "x"),
    *("16", "8,4", "0", "-3", "8,", "1e3", "\uff19", "²", "1" * 30),
    *("/job:ps/cpu:0", "a:1,b:2", "a:1"),
    *("/cpu:0," * 40, "\n", "localhost:1,localhost:1", "127.0.0.1:0", "host"),
)
STEPS = (
    *("20:24", "0:1", "5:4", "1:2:3", "a:b", ":", "1:", "9999999999999999999999:1"),
    *("\uff11:\uff12", "2:2"),
)
SMALL = {
    **{"train_steps": "2", "batch_size": "4", "steps": "2", "max_number_of_steps": "1"},
    "num_clusters": "2",
}
RUN_ONE_IN = 200
"""Cases that really do what they are asked, if they are accepted; all others only begin it."""

FEW = {
    **{"train_steps": 1, "batch_size": 4, "num_towers": 2, "eval_every_steps": 1},
    **{"max_number_of_steps": 1, "num_clones": 1, "max_num_batches": 2},
}
"""Values with which a program ends soon."""

OF_SLIM = {"dataset_name": "digits", "model_name": "lenet", "dataset_split_name": "train"}
TRAINED = "../trained"
"""Model directory of slim's network, for the program that evaluates it."""


MOST_MEMORY = 8 << 30
"""Bytes that a program may take."""


class ReachedError(Exception):
    """The program has accepted its flags and begins its work."""


def reach(*args, **kwargs):
    raise ReachedError


def patched():
    """Ends programs where their work begins."""
    stack = contextlib.ExitStack()
    for owner, name in (
        (replicate.Estimator, "train"),
        (replicate.Estimator, "evaluate"),
        (replicate.KMeansClustering, "train"),
        (replicate, "check_replication"),
        (replicate, "train_and_evaluate"),
        (plain_training, "run"),
        (kfac, "KfacOptimizer"),
        (tf.train, "checkpoints_iterator"),
    ):
        stack.enter_context(mock.patch.object(owner, name, reach))
    return stack


def known_flags(program):
    """Returns the flags of a program: name -> `absl.flags.Flag`."""
    found = {}

    def look(*args):
        names = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
        found.update({flag.name: flag for flag in names})
        raise ReachedError

    with mock.patch.object(cli, "parse_flags", look):
        run(program, [])
    assert len(found) > 3
    return found


def run(program, arguments):
    """Runs a program as `python -m` does; returns its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with (
        flagsaver.flagsaver(),
        mock.patch.object(sys, "argv", [program, *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "'examples", RuntimeWarning)
        try:
            runpy.run_module(f"examples.{program}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            return end.code, out.getvalue(), err.getvalue()
        except ReachedError:
            return 0, out.getvalue(), ""
    raise AssertionError("the program did not exit")


def value_for(draw, damage, flag):
    """Returns a value for a flag, as text: often wrong."""
    if draw.random() < 0.1:
        return draw.choice([text for text in damage.odd_texts if "\0" not in text])
    return draw.choice(values_of(flag))


def values_of(flag):
    """Returns values that fit a flag, and wrong ones."""
    choices = getattr(flag.parser, "enum_values", None)
    if choices:
        return (*choices, *choices, choices[0].upper(), choices[0][:-1], "", "none")
    if flag.boolean:
        return ("true", "false", "1", "0", "yes", "maybe", "", "TRUE", "2")
    if flag.name in ODD_NAMES:
        return ODD_NAMES[flag.name]
    if flag.name.endswith(("_dir", "_path")):
        return PATHS
    of_types = {"int": NUMBERS, "float": NUMBERS, "comma separated list of strings": LISTS}
    return of_types.get(flag.flag_type(), (*PATHS, *LISTS, *NUMBERS))


ODD_NAMES = {
    "profile_steps": STEPS,
    "dataset_name": ("digits", "digits", "mnist", "cifar10", "tfrecords", "imagenet", "x", ""),
    "dataset_split_name": ("train", "test", "validation", "x", "", "*"),
    "model_name": ("lenet", "cifarnet", "lenet", "mobilenet_v1", "x", "", "Lenet"),
    "preprocessing_name": ("lenet", "cifarnet", "vgg", "inception", "x", ""),
    "master": ("", "grpc://localhost:1", "x", "local"),
}


def arguments_for(draw, damage, known):
    """Returns a command line."""
    base = {name: value for name, value in SMALL.items() if name in known}
    if "dataset_name" in known:
        base |= OF_SLIM
    if "eval_dir" in known:
        base["checkpoint_path"] = TRAINED
    base |= {name: "new" for name in ("model_dir", "train_dir", "eval_dir") if name in known}
    line = [f"--{name}={value}" for name, value in base.items()]
    if "dry_run" in known and draw.random() < 0.4:
        line.append("--dry_run")
    for _ in range(draw.choice((0, 1, 1, 2, 3, 5))):
        flag = known[draw.choice(sorted(known))]
        value = value_for(draw, damage, flag)
        spelling = draw.random()
        if spelling < 0.75:
            line.append(f"--{flag.name}={value}")
        elif spelling < 0.85:
            line += [f"--{flag.name}", value]
        else:
            name = damage.text(draw, flag.name) if spelling > 0.93 else flag.name
            line.append(
                draw.choice((f"--no{name}", f"-{name}", f"--{name}", f"--no{name}={value}"))
            )
    if draw.random() < 0.1:
        odd = ("stray", "--", "--flagfile=absent", "--undefok=x", "--flagfile", "-", "", "--=1")
        line.insert(draw.randrange(len(line) + 1), draw.choice(odd))
    if draw.random() < 0.1:
        draw.shuffle(line)
    return [part.encode(errors="ignore").decode().replace("\0", "") for part in line]


def write_idx(folder, side, count):
    """Writes IDX files of small images."""
    folder.mkdir()
    images = np.zeros([count, side, side], np.uint8)
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", images), ("labels-idx1", np.arange(count) % 10)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            path = folder / f"{part}-{name}-ubyte"
            path.write_bytes(head + array.astype(np.uint8).tobytes())


def prepare(folder):
    """Makes a folder to run in: a file, links, a directory of another model, images."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "file").write_text("precious")
    (folder / "link").symlink_to("absent/below")
    (folder / "loop").symlink_to("loop")
    (folder / "used").mkdir()
    (folder / "used" / "trained_for.txt").write_text("something else")
    (folder / "used" / "checkpoint").write_text("")
    write_idx(folder / "digits", side=1, count=4)
    os.chdir(folder)


def train_slim(folder):
    """Trains slim's network for one step, for the evaluation of it."""
    flags_of_train = {**OF_SLIM, "train_dir": folder, "max_number_of_steps": 1, "batch_size": 4}
    arguments = [f"--{name}={value}" for name, value in flags_of_train.items()]
    code, _, err = run("slim.train_image_classifier", arguments)
    assert code == 0, err


@pytest.fixture
def bounded_memory():
    """Lets the process take a few GB more at most, so that a huge number cannot take the machine.

    What earlier tests have left, such as the stacks of TensorFlow's threads, counts in the limit.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    held = 1024 * int(re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)[1])
    resource.setrlimit(resource.RLIMIT_DATA, (held + MOST_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture
def quick(plain_sessions, bounded_memory, monkeypatch, tmp_path):
    """Loads the data once, keeps the working directory, and hides the cluster of the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for owner, name in ((mnist, "load_digits"), (tables, "load")):
        monkeypatch.setattr(owner, name, functools.cache(getattr(owner, name)))


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(
    ("program", "cases"),
    [("convnet", 10), *(pytest.param(name, 2_000, marks=pytest.mark.slow) for name in PROGRAMS)],
)
@pytest.mark.usefixtures("quick")
def test_flags(fuzz, program, cases, damage, refused, tmp_path):
    known = known_flags(program)
    few = [f"--{name}={value}" for name, value in FEW.items() if name in known]
    if "eval_dir" in known:
        train_slim(tmp_path / "trained")

    def play(draw):
        prepare(tmp_path / "case")
        line = arguments_for(draw, damage, known)
        is_run = not draw.randrange(RUN_ONE_IN)
        if is_run:
            line += few
        try:
            with contextlib.nullcontext() if is_run else patched():
                code, _, err = run(program, line)
        except Exception as error:
            error.add_note(f"{program} {line}"[:600])
            raise
        assert (tmp_path / "case" / "file").read_text() == "precious"
        if code == 2:
            raise refused(err.removesuffix("\n"))
        if code == 3 and is_run:  # A learning rate of 1e308 is a number.
            assert "diverged" in err, f"{line}: {err}"
            return
        assert code == 0, f"{line} {code}: {err}"

    fuzz(f"flags of {program}", cases, play, limit_secs=120, expected=("refused",))
