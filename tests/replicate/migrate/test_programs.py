"""Rewritten programs run by themselves, and print what the runner prints for the old ones."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.exit_codes import ExitCode
from replicate.migrate.__main__ import main

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "legacy" / "unchanged"
pytestmark = [
    pytest.mark.skipif(find_spec("tf_keras") is None, reason="needs tf-keras"),
    pytest.mark.skipif(find_spec("tf_slim") is None, reason="needs tf-slim"),
    pytest.mark.timeout(250),
]

MODEL = '''
import tensorflow as tf
from tensorflow.contrib.learn import ModeKeys as MK

slim = tf.contrib.slim
layers = tf.contrib.layers


def model_fn(features, labels, mode, params):
    """A model of tf.contrib.layers and slim."""
    with slim.arg_scope([layers.fully_connected], weights_regularizer=layers.l2_regularizer(0.01)):
        net = layers.fully_connected(features["x"], params.units, scope="hidden")
    cell = tf.contrib.rnn.MultiRNNCell([tf.contrib.rnn.BasicLSTMCell(params.units)])
    outputs, _ = tf.contrib.rnn.static_rnn(cell, [net, net], dtype=tf.float32)
    prediction = tf.squeeze(tf.layers.dense(outputs[-1], 1), axis=1)
    if mode == MK.INFER:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": prediction})
    loss = tf.losses.mean_squared_error(labels, prediction) + tf.losses.get_regularization_loss()
    optimizer = tf.train.AdamOptimizer(params.rate)
    train_op = optimizer.minimize(loss, tf.contrib.framework.get_global_step())
    error = tf.contrib.metrics.streaming_mean_absolute_error(prediction, labels)
    metrics = {"mae": error}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)
'''
TRAIN = '''
"""Trains two models."""
import os
import numpy as np
import tensorflow as tf
from tensorflow import estimator as est

import model

flags = tf.app.flags
flags.DEFINE_string("model_dir", None, "Directory.")
FLAGS = flags.FLAGS
HPARAMS = tf.contrib.training.HParams(units=4, rate=0.1)
X = np.random.RandomState(0).randn(32, 2).astype(np.float32)


def main(_):
    inputs = est.inputs.numpy_input_fn({"x": X}, X.sum(1), 8, num_epochs=None, shuffle=True)
    config = tf.estimator.RunConfig(model_dir=FLAGS.model_dir, tf_random_seed=3)
    trained = est.Estimator(model.model_fn, config=config, params=HPARAMS)
    trained.train(inputs, max_steps=5)
    print(sorted(trained.evaluate(inputs, steps=2).items()))
    column = tf.feature_column.numeric_column("x", [2])
    canned = tf.estimator.LinearRegressor([column], os.path.join(FLAGS.model_dir, "canned"))
    canned.train(inputs, max_steps=3)
    print(sorted(canned.evaluate(inputs, steps=2).items()), tf.Variable(1.0)._ref is not None)


if __name__ == "__main__":
    tf.app.run()
'''


def start(folder, *command):
    """Starts a program that trains and prints into new places beside its own folder."""
    directory = "output_dir" if "tpu_2018.py" in command else "model_dir"
    names = ("TF_USE_LEGACY_KERAS", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    with open(f"{folder}_out", "w") as out, open(f"{folder}_err", "w") as err:
        return subprocess.Popen(
            [sys.executable, *command, f"--{directory}={folder}_model"],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=err,
        )


def outputs(tmp_path, program, *arguments):
    """Returns what the old program prints under the runner, and the rewritten one by itself."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(old, new)
    assert main(["--write", str(new)]) == ExitCode.DONE
    children = [
        start(old, "-m", "replicate.compat", program, *arguments),
        start(new, program, *arguments),
    ]
    try:
        codes = [child.wait(timeout=200) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert codes == [0, 0], [Path(f"{folder}_err").read_text() for folder in (old, new)]
    printed = [Path(f"{folder}_out").read_text() for folder in (old, new)]
    return [re.sub(r"\S*/(old|new)_model\S*", "PATH", each) for each in printed]


def test_program_with_a_module_prints_the_same(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "train.py").write_text(TRAIN)
    (tmp_path / "old" / "model.py").write_text(MODEL)
    before, after = outputs(tmp_path, "train.py")
    assert before == after
    assert "'mae', " in before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("slim_2017", "train_steps"),
        ("tpu_2018", "num_train_steps"),
        ("distribute_2019", "train_steps"),
    ],
)
def test_examples_print_the_same(tmp_path, name, steps):
    (tmp_path / "old").mkdir()
    shutil.copy(EXAMPLES / f"{name}.py", tmp_path / "old")
    before, after = outputs(tmp_path, f"{name}.py", f"--{steps}=20")
    assert before == after
    assert "accuracy = " in before
