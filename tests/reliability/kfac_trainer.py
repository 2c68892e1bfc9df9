"""A training program of K-FAC whose inverses are computed beside the steps.

    python kfac_trainer.py MODEL_DIR

Each process prints "step N" after each of its steps, and at the end "weights" with their values.
The chief trains on the first rows, the other worker on the rest.
"""

import itertools

import numpy as np
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1
STEPS, SAVE_STEPS, PERIOD, DELAY = 27, 5, 6, 4
ROWS, OF_CHIEF, SIZES = 12, 8, (5, 4, 1)


class Report(v1.train.SessionRunHook):
    """Prints each step, and keeps the weights as they are at the end."""

    def begin(self):
        self._step = v1.train.get_global_step()
        self._weights = [variable.read_value() for variable in v1.trainable_variables()]

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        print(f"step {run_values.results}", flush=True)

    def end(self, session):
        self.weights = np.concatenate([values.ravel() for values in session.run(self._weights)])


def model_fn(features, labels, mode):
    layers = kfac.graph_layer_collection()
    hidden = features
    for number, shape in enumerate(itertools.pairwise(SIZES)):
        start = np.random.RandomState(number).randn(*shape)
        weights = v1.get_variable(f"weights_{number}", initializer=start)
        outputs = hidden @ weights
        layers.register_fully_connected(weights, hidden, outputs)
        hidden = tf.tanh(outputs)
    layers.register_normal_predictive_distribution(outputs, targets=labels)
    loss = tf.reduce_mean((outputs - labels) ** 2) / 2
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            learning_rate=0.05,
            damping=0.1,
            layer_collection=layers,
            estimation_mode="empirical",
            invert_every=PERIOD,
            inverse_delay=DELAY,
        )
    )
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(start, stop):
    features = np.random.RandomState(0).randn(ROWS, SIZES[0])
    labels = np.tanh(features).sum(axis=1, keepdims=True)
    return tf.data.Dataset.from_tensors((features[start:stop], labels[start:stop])).repeat()


def train(folder, rows=(0, ROWS), strategy=None):
    """Trains on some rows. Returns all weights in one vector."""
    config = replicate.RunConfig(
        save_checkpoints_steps=SAVE_STEPS, progress="off", train_distribute=strategy
    )
    report = Report()
    estimator = replicate.Estimator(model_fn, folder, config)
    estimator.train(lambda: input_fn(*rows), max_steps=STEPS, hooks=[report])
    return report.weights


def main(folder):
    strategy = replicate.AllReduce(timeout_secs=60, check_every=1)
    rows = (0, OF_CHIEF) if replicate.RunConfig().is_chief else (OF_CHIEF, ROWS)
    print("weights", *train(folder, rows, strategy), flush=True)


if __name__ == "__main__":
    from as_task import run_as_task

    run_as_task(main)
