"""Rewritten programs run by themselves, and print what the runner prints for the old ones."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.exit_codes import ExitCode
from replicate.migrate.__main__ import main

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "legacy" / "unchanged"
pytestmark = [
    pytest.mark.skipif(find_spec("tf_slim") is None, reason="needs tf-slim"),
    pytest.mark.timeout(250),
]

MODEL = """
import tensorflow as tf

slim = tf.contrib.slim
layers = tf.contrib.layers


def model_fn(features, labels, mode, params):
    with slim.arg_scope([layers.fully_connected], weights_regularizer=layers.l2_regularizer(0.01)):
        net = layers.fully_connected(features["x"], params.units, scope="hidden")
    cell = tf.contrib.rnn.BasicLSTMCell(params.units)
    outputs, _ = tf.contrib.rnn.static_rnn(cell, [net, net], dtype=tf.float32)
    prediction = tf.squeeze(tf.layers.dense(outputs[-1], 1), axis=1)
    loss = tf.losses.mean_squared_error(labels, prediction) + tf.losses.get_regularization_loss()
    optimizer = tf.train.AdamOptimizer(params.rate)
    train_op = optimizer.minimize(loss, tf.contrib.framework.get_global_step())
    metrics = {"mae": tf.contrib.metrics.streaming_mean_absolute_error(prediction, labels)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)
"""
TRAIN = """
import numpy as np
import tensorflow as tf
from tensorflow import estimator as est

import model

tf.app.flags.DEFINE_string("model_dir", None, "Directory.")
HPARAMS = tf.contrib.training.HParams(units=4, rate=0.1)
X = np.random.RandomState(0).randn(32, 2).astype(np.float32)


def main(_):
    inputs = est.inputs.numpy_input_fn({"x": X}, X.sum(1), 8, num_epochs=None, shuffle=True)
    config = tf.estimator.RunConfig(model_dir=tf.app.flags.FLAGS.model_dir, tf_random_seed=3)
    trained = est.Estimator(model.model_fn, config=config, params=HPARAMS)
    trained.train(inputs, max_steps=3)
    print(sorted(trained.evaluate(inputs, steps=2).items()), tf.Variable(1.0)._ref is not None)


if __name__ == "__main__":
    tf.app.run()
"""
# A rewritten program as from a shell: it chooses Keras by itself.
RUN = """
import os, runpy, sys
os.environ.pop("TF_USE_LEGACY_KERAS", None)
sys.path.insert(0, os.getcwd())
del sys.argv[0]
runpy.run_path(sys.argv[0], None, "__main__")
"""


@pytest.fixture
def outputs(run_python, run_tensorflow1, tmp_path):
    """Returns what the old program prints under the runner, and the rewritten one by itself."""

    def run(program, *arguments, directory="model_dir"):
        old, new = tmp_path / "old", tmp_path / "new"
        shutil.copytree(old, new)
        assert main(["--write", str(new)]) == ExitCode.DONE
        before = run_tensorflow1(old, program, *arguments, f"--{directory}=old_model", timeout=200)
        after = run_python(
            RUN, program, *arguments, f"--{directory}=new_model", folder=new, timeout=200
        )
        assert after.code == 0, after.err
        return [re.sub(r"\S*(old|new)_model\S*", "PATH", each.out) for each in (before, after)]

    (tmp_path / "old").mkdir()
    return run


@pytest.mark.broad  # The tests of rewrite and program check the text of each line.
def test_program_with_a_module_prints_the_same(outputs, tmp_path):
    (tmp_path / "old" / "train.py").write_text(TRAIN)
    (tmp_path / "old" / "model.py").write_text(MODEL)
    before, after = outputs("train.py")
    assert before == after
    assert "'mae', " in before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "directory"),
    [
        ("slim_2017", "train_steps", "model_dir"),
        ("tpu_2018", "num_train_steps", "output_dir"),
        ("distribute_2019", "train_steps", "model_dir"),
    ],
)
def test_examples_print_the_same(outputs, tmp_path, name, steps, directory, monkeypatch):
    """One thread runs operations: tpu_2018 reads the step while it is assigned, for its rate."""
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "1")
    shutil.copy(EXAMPLES / f"{name}.py", tmp_path / "old")
    before, after = outputs(f"{name}.py", f"--{steps}=20", directory=directory)
    assert before == after
    assert "accuracy = " in before
