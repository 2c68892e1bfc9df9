"""A training program that trains and evaluates several models, one after the other.

    python several_models.py MODEL_DIR

All of them give their variables the same names, and two sizes of them differ. Each process prints
"weights NAME VALUES" after each call of train. A model that was trained already goes on where its
checkpoint is.
"""

import os

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1
RATE, STEPS = 2.0**-3, 4
CALLS = (("small", 3), ("small", 3), ("large", 5), ("small", 3))
"""Names of the models in the order of the calls of train, and the number of their weights."""


class Weights(v1.train.SessionRunHook):
    """Keeps the weights as they are at the end of training."""

    def begin(self):
        self._values = v1.trainable_variables()[0].read_value()

    def end(self, session):
        self.values = session.run(self._values)


def model_fn(features, labels, mode, params):
    weights = v1.get_variable("weights", [params], tf.float64, v1.zeros_initializer())
    loss = tf.reduce_mean((tf.linalg.matvec(features, weights) - labels) ** 2)
    if mode == replicate.ModeKeys.EVAL:
        return replicate.EstimatorSpec(mode, loss=loss)
    optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(RATE, 0.5))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(size):
    rows = np.random.RandomState(size).randn(6, size)
    return tf.data.Dataset.from_tensors((rows, rows.sum(axis=1))).repeat()


def train(folder, name, size, strategy=None):
    """Trains a model for some steps more, and evaluates it. Returns its weights."""
    config = replicate.RunConfig(
        save_checkpoints_steps=STEPS, progress="off", train_distribute=strategy
    )
    estimator = replicate.Estimator(model_fn, os.path.join(folder, name), config, params=size)
    kept = Weights()
    estimator.train(lambda: input_fn(size), steps=STEPS, hooks=[kept])
    estimator.evaluate(lambda: input_fn(size), steps=1)
    return kept.values


def main(folder):
    strategy = replicate.AllReduce(timeout_secs=60, check_every=1, evaluates=True)
    for name, size in CALLS:
        print("weights", name, *train(folder, name, size, strategy), flush=True)


if __name__ == "__main__":
    from as_task import run_as_task

    run_as_task(main)
