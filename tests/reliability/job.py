"""A training job that saves each step, for tests in which two jobs want one model directory.

    job.py MODEL_DIR STEPS GATE_STEP

It prints "begin SECONDS" before it trains and "step N SECONDS" after each step, by the clock that
all processes of a host share. At GATE_STEP it waits for the file MODEL_DIR/go. If another job has
the directory, it prints one line and exits with the code of the error. A step depends on all
batches before, and a save takes some milliseconds.
"""

import os
import sys
import time

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1
WIDTH = 300_000


class Report(v1.train.SessionRunHook):
    """Prints each step, and waits at the gate."""

    def __init__(self, folder, gate_step):
        self._gate = f"{folder}/go"
        self._gate_step = gate_step

    def begin(self):
        self._step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._step))
        print("step", step, time.monotonic(), flush=True)
        while step == self._gate_step and not os.path.exists(self._gate):
            time.sleep(0.05)


def model_fn(features, labels, mode):
    weights = v1.get_variable("weights", [WIDTH], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(weights - features - labels))
    optimizer = v1.train.MomentumOptimizer(1e4, 0.9)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    numbers = np.arange(40, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices((numbers, numbers)).shuffle(40).repeat()


def main(folder, steps, gate_step):
    config = replicate.RunConfig(
        save_checkpoints_steps=1,
        keep_checkpoint_max=3,
        save_summary_steps=None,
        log_step_count_steps=None,
        progress="off",
    )
    estimator = replicate.Estimator(model_fn, folder, config)
    print("begin", time.monotonic(), flush=True)
    estimator.train(input_fn, max_steps=int(steps), hooks=[Report(folder, int(gate_step))])


if __name__ == "__main__":
    v1.logging.set_verbosity(v1.logging.ERROR)
    try:
        main(*sys.argv[1:])
    except replicate.ModelDirInUseError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(error.code)
