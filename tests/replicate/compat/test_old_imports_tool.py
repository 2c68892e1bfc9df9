"""tools/old_imports.py tells which names of TensorFlow 1 that programs import can be used."""

import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "old_imports.py"
PROGRAM = """
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.training.saver import Saver, Sever
from tensorflow.contrib.gan import gan_model
from . import tensorflow_thing
x = ops.Tensor, tf.nn.relu(tf.nn.relu(1)), tf.contrib.layers.l2_regularizer, tf.optimizers.Adam
y = tf.train.AdamOptimizer(0.1).minimize, tf.train.AdamOptimizer.nothing
"""
PYTHON2 = """
from tensorflow.estimator import RunConfig
print 'Python 2'
"""
EXPECTED = """\
tensorflow.contrib 1 of 2 names there, 1 told, 0 missing
tensorflow.python 3 of 4 names there, 0 told, 1 missing
tensorflow_estimator 0 of 0 names there, 0 told, 0 missing
tensorflow.estimator 1 of 1 names there, 0 told, 0 missing
tensorflow 2 of 3 names there, 0 told, 1 missing
all 7 of 10 names there, 1 told, 2 missing
tensorflow.python.training.saver.Sever 2 MISSING
tensorflow.train.AdamOptimizer.nothing 2 MISSING
"""


RUN = f"import runpy; runpy.run_path({str(TOOL)!r}, run_name='__main__')"


@pytest.fixture
def lines_of(run_python):
    """Returns the lines of the report on folders."""

    def run(*folders):
        done = run_python(RUN, *folders, "--missing")
        assert done.code == 0, done.err
        return [" ".join(line.split()) for line in done.out.splitlines()]

    return run


def test_names_of_folders_and_of_repositories_are_looked_up(needs_git, tmp_path, lines_of):
    plain = tmp_path / "plain" / "package"
    plain.mkdir(parents=True)
    (plain / "program.py").write_text(PROGRAM)
    (plain / "old.py").write_text(PYTHON2)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(plain)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "add"]):
        subprocess.run([*git, *command], check=True)
    bare = tmp_path / "bare" / "owner"
    subprocess.run(["git", "clone", "-q", "--bare", str(plain), str(bare)], check=True)
    lines = lines_of(plain, tmp_path / "bare")
    assert lines[: len(EXPECTED.splitlines())] == EXPECTED.splitlines()
    assert lines[-1].startswith("tensorflow.contrib.gan.gan_model 2 ")
