"""A worker that goes on without others that are lost.

    python elastic_trainer.py MODEL_DIR STEPS EVERY

EVERY is 0 for sums in each step. It prints "ready", then "step N of SIZE" after each step, and at
the end the weights and the number of workers in each step. That number is a variable of the model:
steps that were lost with their workers have been printed, too. Each worker has its own batches, as
`worker_share` gives them, and reads on at its step when the number of workers has changed:
`expected` tells the weights.
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1
ROWS, WIDTH, BATCH, RATE = 40_000, 3, 2, 0.05
MIN_WORKERS = int(os.environ.get("MIN_WORKERS", "2"))
SAVE_STEPS = int(os.environ.get("SAVE_STEPS", "1000000"))
STREAM = json.loads(os.environ.get("STREAM", "{}"))
"""Settings of rounds, such as fragments; the model then has a second variable."""

STEP_SECS = float(os.environ.get("STEP_SECS", "0.05"))


def examples():
    rows = np.random.RandomState(0).randn(ROWS, WIDTH)
    return rows, rows @ np.arange(1.0, WIDTH + 1) + 0.5


def expected(phases, every=0):
    """Weights after phases of (steps, workers), by NumPy: the input goes on, n batches a step."""
    rows, labels = examples()
    weights, velocity, t = np.zeros(WIDTH), np.zeros(WIDTH), 0

    def gradient(weights, t, worker, size):
        own = slice(worker, None, size)
        x, y = (each[own][BATCH * t : BATCH * (t + 1)] for each in (rows, labels))
        return 2 * x.T @ (x @ weights - y) / BATCH

    for steps, size in phases:
        for _ in range(steps // (every or 1)):
            own = [weights.copy() for _ in range(size)]
            for inner in range(every or 1):
                for worker in range(size):
                    own[worker] -= RATE * gradient(own[worker], t + inner, worker, size)
            change = weights - np.mean(own, axis=0)
            velocity = (0.9 if every else 0.0) * velocity + change
            weights = weights - (0.7 * (0.9 * velocity + change) if every else change)
            t += every or 1
    return weights


class Report(v1.train.SessionRunHook):
    def __init__(self, size):
        self._size = size

    def begin(self):
        self._step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        step = run_context.session.run(self._step)
        print("step", step, "of", self._size, flush=True)
        time.sleep(STEP_SECS)


def model_fn(features, labels, mode, params):
    weights = v1.get_variable("weights", [WIDTH], tf.float64, v1.zeros_initializer())
    outputs = tf.linalg.matvec(features, weights)
    if STREAM:
        outputs += v1.get_variable("bias", [], tf.float64, v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(RATE))
    step = v1.train.get_global_step()
    sizes = v1.get_variable(
        "sizes", [params["steps"]], tf.int64, v1.zeros_initializer(), trainable=False
    )
    with tf.control_dependencies([v1.scatter_update(sizes, step, params["size"])]):
        train_op = optimizer.minimize(loss, step)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return replicate.worker_share(tf.data.Dataset.from_tensor_slices(examples())).batch(BATCH)


def main(folder, steps, every):
    settings = replicate.AllReduce(
        min_workers=MIN_WORKERS, every=int(every) or None, timeout_secs=60, **STREAM
    )
    config = replicate.RunConfig(
        train_distribute=settings, save_checkpoints_steps=SAVE_STEPS, progress="off"
    )
    size = config.num_worker_replicas or 1
    params = {"steps": int(steps), "size": size}
    estimator = replicate.Estimator(model_fn, folder, config, params)
    print("ready", flush=True)
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(input_fn, max_steps=int(steps), hooks=[Report(size)]),
        replicate.EvalSpec(input_fn),
    )
    if config.is_chief:
        print("sizes", *estimator.get_variable_value("sizes"), flush=True)
        print("weights", *estimator.get_variable_value("weights"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
