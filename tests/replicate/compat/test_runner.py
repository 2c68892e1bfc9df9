"""`python -m replicate.compat` runs programs of TensorFlow 1 as Python did."""

import os
import signal
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.compat.runner import is_own_file

ROOT = Path(__file__).parents[3]
needs_keras = pytest.mark.skipif(find_spec("tf_keras") is None, reason="needs tf-keras")

MODEL = '''
"""The model, in a module of its own."""
import tensorflow as tf
from tensorflow.contrib.training import HParams

DEFAULTS = HParams(rate=0.1, units=[4])


def model_fn(features, labels, mode, params):
    net = features["x"]
    for units in params.units:
        net = tf.layers.dense(net, units, tf.nn.relu)
    prediction = tf.squeeze(tf.layers.dense(net, 1), axis=1)
    loss = tf.losses.mean_squared_error(labels, prediction)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(params.rate).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
'''
PROGRAM = '''
"""Trains the model."""
import multiprocessing
import os
import sys

import numpy as np
import tensorflow as tf

import model

flags = tf.app.flags
flags.DEFINE_string("hparams", "", "settings")
flags.DEFINE_string("dir", None, "directory")
FLAGS = flags.FLAGS
SCALE = tf.contrib.learn.ModeKeys.TRAIN


def in_child(number):
    return number, SCALE, tf.__version__, __name__, tf.placeholder("float").op.type


def input_fn():
    data = tf.data.Dataset.from_tensor_slices(({"x": np.ones([8, 2], "f4")}, np.ones(8, "f4")))
    return data.repeat().batch(4).make_one_shot_iterator().get_next()


def main(argv):
    width = tf.placeholder(tf.float32, [None, 3]).shape[1].value
    print("argv", argv, width, os.path.basename(__file__), tf.get_default_graph() is not None)
    config = tf.estimator.RunConfig(model_dir=FLAGS.dir, save_checkpoints_steps=2)
    params = model.DEFAULTS.parse(FLAGS.hparams)
    estimator = tf.estimator.Estimator(model.model_fn, config=config, params=params)
    estimator.train(input_fn, max_steps=3)
    print("step", estimator.get_variable_value("global_step"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("child", pool.apply(in_child, (5,)))
    sys.exit(7)


if __name__ == "__main__":
    tf.app.run()
'''


def start(folder, *arguments):
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TF_USE")}
    return subprocess.Popen(
        [sys.executable, "-m", "replicate.compat", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, *arguments):
    """Returns code, output and errors of the runner."""
    with start(folder, *arguments) as process:
        try:
            output, errors = process.communicate(timeout=100)
        finally:
            process.kill()
    return process.returncode, output, errors


@needs_keras
def test_program_runs_with_its_modules_flags_exit_code_and_children(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "program.py").write_text(PROGRAM)
    (tmp_path / "sub" / "model.py").write_text(MODEL)
    arguments = [f"--dir={tmp_path}/model", "--hparams=units=[3,2],rate=0.2"]
    code, output, errors = run(tmp_path, "sub/program.py", *arguments)
    assert code == 7, errors
    assert "argv ['sub/program.py'] 3 program.py True\n" in output
    assert "step 3\n" in output
    assert "child (5, 'train', '1.15.5', '__mp_main__', 'Placeholder')\n" in output


TOWERS = """
import multiprocessing
import numpy as np
import tensorflow as tf

calls = []

def model_fn(features, labels, mode):
    calls.append(tf.get_default_graph().get_name_scope())
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(weight * features)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

def train(folder):
    del calls[:]
    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(lambda: tf.data.Dataset.from_tensors(np.float32([1, 2, 3])), steps=1)
    return calls, float(estimator.get_variable_value("weight"))

if __name__ == "__main__":
    print(train("here"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(train, ("child",)))
"""


@pytest.mark.parametrize("option", ["--num_towers=3", "--devices=/cpu:0,/cpu:0,/cpu:0"])
def test_estimators_train_on_the_towers_that_are_asked_for(option, tmp_path):
    (tmp_path / "program.py").write_text(TOWERS)
    code, output, errors = run(tmp_path, option, "program.py")
    assert code == 0, errors
    assert output == "(['', 'tower_1', 'tower_2'], -2.0)\n" * 2


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
    layer = tf.contrib.image.rotate
    layer(tf.ones([1, 2]))
"""


def test_module_sees_tensorflow_1_and_installed_packages_only_if_named(tmp_path):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(MODULE)
    (tmp_path / "package" / "part.py").write_text(PART)
    for name in ("installed", "named"):
        (tmp_path / "site-packages" / f"{name}.py").write_text("import tensorflow as tf")
    (tmp_path / "package" / "__init__.py").write_text(
        "import sys; sys.path.append('site-packages')"
    )
    code, output, errors = run(tmp_path, "--package=named", "-m", "package")
    assert output == "True train False __main__\nFalse False\nTrue\n", errors
    assert code == 2
    assert "Traceback" not in errors
    assert errors.endswith(
        f"tf.contrib.image.rotate cannot be used ({tmp_path}/package/part.py:6). It has "
        "no counterpart here.\n"
    )


def test_program_without_tensorflow_loads_none_and_keeps_its_tracebacks(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys, replicate.compat, part\n"
        "assert 'tensorflow' not in sys.modules\n"
        "part.divide(0)\n"
    )
    (tmp_path / "part.py").write_text("def divide(by):\n    return 1 / by\n")
    code, _, errors = run(tmp_path, "program.py")
    lines = [line for line in errors.splitlines() if line.startswith("  File")]
    assert code == 1
    assert lines == [
        f'  File "{tmp_path}/program.py", line 3, in <module>',
        f'  File "{tmp_path}/part.py", line 2, in divide',
    ]
    assert errors.endswith("ZeroDivisionError: division by zero\n")


def test_signal_ends_the_program_as_python_does(tmp_path):
    (tmp_path / "program.py").write_text(
        "import signal, sys\nprint('ready', flush=True)\nsignal.pause()\n"
    )
    with start(tmp_path, "program.py") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors


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


CALL = """
import sys
import tensorflow
import replicate.compat

before = sys.modules["__main__"], list(sys.argv), list(sys.path)
try:
    replicate.compat.run("program.py", "--steps=1")
except SystemExit as end:
    print("code", int(end.code))
assert before == (sys.modules["__main__"], sys.argv, sys.path)
"""


def test_call_runs_a_program_and_tells_one_of_tensorflow_2(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys\nimport tensorflow as tf\nprint(sys.argv, tf.VERSION)\n"
        "print(tf.constant(1.0).numpy())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "['program.py', '--steps=1'] 1.15.5\ncode 2\n", done.stderr
    assert f"no attribute 'numpy' ({tmp_path}/program.py:4). TensorFlow 1 has no" in done.stderr


CHILDREN = """
import multiprocessing
import os
from . import part

def in_child(number):
    return part.DOUBLE * number, __name__, __package__

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.apply(in_child, (4,)))
"""


def test_children_of_a_module_find_its_package(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text("DOUBLE = 2")
    (tmp_path / "package" / "train.py").write_text(CHILDREN)
    code, output, errors = run(tmp_path, "-m", "package.train")
    forked, *others = output.splitlines()
    assert code == 0, errors
    assert forked == "(8, '__main__', 'package')"
    assert others == ["(8, '__mp_main__', 'package')"] * 2


def test_own_files_are_those_of_no_package(tmp_path):
    assert is_own_file(str(tmp_path / "model.py"))
    assert not is_own_file(os.__file__)
    assert not is_own_file(sysconfig.get_path("purelib") + "/package/model.py")
    assert not is_own_file(str(tmp_path / "lib" / "dist-packages" / "model.py"))
    assert not is_own_file(str(ROOT / "replicate" / "spec.py"))
    assert is_own_file(str(ROOT / "examples" / "program.py"))
