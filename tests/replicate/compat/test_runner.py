"""`python -m replicate.compat` runs programs of TensorFlow 1 as Python did."""

import builtins
import contextlib
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.compat import __main__ as command_line
from replicate.compat import runner

ROOT = Path(__file__).parents[3]

MODEL = '''
"""The model, in a module of its own."""
import numpy as np
import tensorflow as tf
from tensorflow.contrib.training import HParams

DEFAULTS = HParams(rate=0.1)
towers = []


def model_fn(features, labels, mode, params):
    towers.append(tf.get_default_graph().get_name_scope())
    zeros = tf.zeros_initializer()
    outputs = tf.layers.dense(features, 1, use_bias=False, kernel_initializer=zeros)
    loss = tf.reduce_mean(1.0 * tf.expand_dims(outputs, axis=[-1]))
    optimizer = tf.train.GradientDescentOptimizer(params.rate)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    data = tf.data.Dataset.from_tensors(np.float32([[1], [2], [3]] * 2))
    return data.make_one_shot_iterator().get_next()


def train(hparams):
    width = tf.placeholder("float", [None, 3]).shape[1].value
    estimator = tf.estimator.Estimator(model_fn, params=DEFAULTS.parse(hparams))
    estimator.train(input_fn, steps=1)
    kernel = estimator.get_variable_value("dense/kernel")
    return tf.__version__, width, towers, float(kernel.sum())
'''
TRAINED = "('1.15.5', 3, ['', 'tower_1', 'tower_2'], -2.0)"
PROGRAM = '''
"""Trains the model."""
import os
import sys
import tensorflow as tf
import model

tf.app.flags.DEFINE_string("hparams", "", "settings")


def main(argv):
    print(argv, os.path.basename(__file__))
    print(model.train(tf.app.flags.FLAGS.hparams))
    sys.exit(7)


if __name__ == "__main__":
    tf.app.run()
'''


def run(folder, *arguments):
    """Returns code, output and errors of the runner, started from a shell."""
    environment = {
        name: v for name, v in os.environ.items() if not name.startswith(("TF_USE", "TF_CPP"))
    }
    ended = subprocess.run(
        [sys.executable, "-m", "replicate.compat", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(scope="session")
def run_forked(run_python):
    """Returns how the runner ended in a process that has TensorFlow loaded."""
    runner = "import runpy; runpy.run_module('replicate.compat', None, '__main__', True)"
    keras = {"TF_USE_LEGACY_KERAS": "1"} if find_spec("tf_keras") else {}

    def run(folder, *arguments):
        return run_python(runner, *arguments, folder=folder, environment=keras)

    return run


def test_program_trains_on_the_towers_that_are_asked_for(tmp_path, run_forked):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "program.py").write_text(PROGRAM)
    (tmp_path / "sub" / "model.py").write_text(MODEL)
    ended = run_forked(tmp_path, "--num_towers=3", "sub/program.py", "--hparams=rate=1.0")
    assert ended.out.splitlines() == ["['sub/program.py'] program.py", TRAINED], ended.err
    assert ended.code == 7


MODULE = """
import tensorflow.compat.v1 as tf
from . import part

class Net(tf.keras.layers.Layer):
    pass

if __name__ == "__main__":
    print(part.tf is tf, tf.estimator.ModeKeys.TRAIN, tf.executing_eagerly(), Net.__module__)
    import installed
    print(hasattr(installed.tf, "contrib"), installed.tf.__version__ == tf.__version__)
    import named
    print(named.tf is tf)
    part.fail()
"""
PART = """
import tensorflow as tf

def fail():
    layer = tf.contrib.image.connected
    layer(tf.ones([1, 2]))
"""


def test_module_sees_tensorflow_1_and_installed_packages_only_if_named(tmp_path, run_forked):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(MODULE)
    (tmp_path / "package" / "part.py").write_text(PART)
    for name in ("installed", "named"):
        (tmp_path / "site-packages" / f"{name}.py").write_text("import tensorflow as tf")
    (tmp_path / "package" / "__init__.py").write_text(
        "import sys; sys.path.append('site-packages')"
    )
    ended = run_forked(tmp_path, "--package=named", "-m", "package")
    assert ended.out == "True train False __main__\nFalse False\nTrue\n", ended.err
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert ended.err.endswith(
        f"tf.contrib.image.connected cannot be used ({tmp_path}/package/part.py:6). It has "
        "no counterpart here.\n"
    )


CHILDREN = """
import multiprocessing
import sys
import numpy as np
from . import part

def in_child(number):
    return part.half(number), __name__, __package__, np.float is float

def train():
    from . import model
    return model.train("rate=1.0")

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.apply(in_child, (4,)), flush=True)
    if sys.argv[1:]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(train), flush=True)
    assert "tensorflow" not in sys.modules
    part.half("x")
"""


@pytest.mark.parametrize("trains", [[], pytest.param(["--train"], marks=pytest.mark.broad)])
def test_module_without_tensorflow_loads_none_and_keeps_its_children_and_tracebacks(
    tmp_path, trains
):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text("def half(x):\n    return x / 2\n")
    (tmp_path / "package" / "model.py").write_text(MODEL)
    (tmp_path / "package" / "train.py").write_text(CHILDREN)
    code, output, errors = run(tmp_path, "--num_towers=3", "-m", "package.train", *trains)
    assert code == 1
    assert output.splitlines() == [
        "(2.0, '__main__', 'package', True)",
        "(2.0, '__mp_main__', 'package', True)",
        "(2.0, '__mp_main__', 'package', True)",
        *([TRAINED] if trains else []),
    ], errors
    assert [line for line in errors.splitlines() if line.startswith("  File")] == [
        f'  File "{tmp_path}/package/train.py", line 22, in <module>',
        f'  File "{tmp_path}/package/part.py", line 2, in half',
    ]
    assert "TypeError: unsupported operand" in errors.splitlines()[-1]
    assert "absl::InitializeLog" not in errors  # TensorFlow is loaded in silence.


@pytest.mark.parametrize("command", ["compat", "run"])
def test_interrupt_ends_the_program_as_python_does_and_is_one_line(tmp_path, start_python, command):
    # A signal just before a single long call would be seen only after it.
    (tmp_path / "program.py").write_text(
        "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.1)\n"
    )
    runner = f"import runpy; runpy.run_module('replicate.{command}', None, '__main__', True)"
    process = start_python(runner, "program.py", folder=tmp_path)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGINT
    assert errors == f"replicate.{command}: interrupted (KeyboardInterrupt)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no program is given"),
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["-m", "no_such_module.part"], "there is no module 'no_such_module.part'"),
        (["--flag", "a.py"], "no flag --flag is known"),
        (["--num_towers=0", "a.py"], "--num_towers must be a whole number >= 1, got '0'"),
        (["--num_towers=two", "a.py"], "--num_towers must be a whole number >= 1, got 'two'"),
        (["--devices=/cpu:0,", "a.py"], "--devices must be names with commas between, got"),
        (
            ["--num_towers=2", "--devices=/cpu:0", "a.py"],
            "--num_towers=2 and --devices=/cpu:0 exclude each other",
        ),
    ],
)
def test_wrong_command_lines_are_refused(arguments, message, tmp_path):
    code, output, errors = run(tmp_path, *arguments)
    assert (code, output) == (2, "")
    assert errors.startswith(f"replicate.compat: {message}")
    assert "Traceback" not in errors


def test_options_stand_before_the_program(monkeypatch):
    calls = []
    monkeypatch.setattr(
        command_line, "run", lambda *names, **options: calls.append((names, options))
    )
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    options = ["--package=a", "--python2", "--devices=/gpu:0, /gpu:1", "--package=b"]
    command_line.main([*options, "-m", "train", "--num_towers=2"])
    devices = ["/gpu:0", "/gpu:1"]
    expected = {
        "module": True,
        "packages": ["a", "b"],
        "num_towers": None,
        "devices": devices,
        "python2": True,
    }
    assert calls == [(("train", "--num_towers=2"), expected)]


CALL = """
import sys
import tensorflow
import replicate.compat

before = sys.modules["__main__"], list(sys.argv), list(sys.path)
try:
    replicate.compat.run("program.py", "--steps=1", devices=["/cpu:0", "/cpu:1"])
except SystemExit as end:
    print("code", int(end.code))
assert before == (sys.modules["__main__"], sys.argv, sys.path)
"""


def test_call_runs_a_program_and_tells_one_of_tensorflow_2(tmp_path, run_python):
    (tmp_path / "program.py").write_text(
        "import sys\nimport tensorflow as tf\n"
        "from replicate.tower.default_towers import default_devices\n"
        "print(sys.argv, tf.VERSION, default_devices())\n"
        "print(tf.constant(1.0).numpy())\n"
    )
    done = run_python(CALL, folder=tmp_path)
    program = "['program.py', '--steps=1'] 1.15.5 ('/cpu:0', '/cpu:1')"
    assert done.out == f"{program}\ncode 2\n", done.err
    assert f"no attribute 'numpy' ({tmp_path}/program.py:5). TensorFlow 1 has no" in done.err


@pytest.mark.parametrize(
    ("end", "is_told"), [("", True), ("sys.exit()", True), ("sys.exit(3)", False), ("ask()", False)]
)
def test_program_without_estimators_is_told_that_nothing_was_replicated(
    tmp_path, monkeypatch, capsys, end, is_told
):
    (tmp_path / "program.py").write_text(
        "import sys\nfrom replicate.tower.default_towers import default_devices as ask\n" + end
    )
    monkeypatch.setattr(runner, "install_program", lambda *_: None)
    monkeypatch.setattr(runner, "view_builtins", lambda: builtins)
    with contextlib.suppress(SystemExit):
        runner.run(str(tmp_path / "program.py"), num_towers=2)
    told = "replicate.compat: nothing was replicated: num_towers=2 is for Estimators, and none"
    errors = capsys.readouterr().err
    assert errors.startswith(told) if is_told else not errors
