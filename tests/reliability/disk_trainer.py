"""A training program whose weights tell the step, for model directories whose disk has faults.

    python disk_trainer.py MODEL_DIR GATES [--steps=N] [--on_save_error=...] [--largest_file=BYTES]
        [--slow_secs=S] [--export]

A checkpoint takes a mebibyte and is written every 10 steps. The program prints "step N" after each
step. At each step 15, 25, 35 ... it waits for the file GATES/go-STEP, so that a test has the time
to disturb the disk. With --slow_secs each save takes that long, between the data and the state
file. With --export the model is exported after each evaluation. A CheckpointError is one line on
standard error, and the exit code is that of the error.
"""

import argparse
import os
import resource
import sys
import time

import tensorflow as tf

import replicate

v1 = tf.compat.v1
SAVE_STEPS = 10
WEIGHTS = 1 << 17


class Report(v1.train.SessionRunHook):
    """Prints each step, and waits at some."""

    def __init__(self, gates):
        self._gates = gates

    def begin(self):
        self._step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._step))
        print(f"step {step}", flush=True)
        gate = os.path.join(self._gates, f"go-{step}")
        while step > SAVE_STEPS and step % SAVE_STEPS == 5 and not os.path.exists(gate):
            time.sleep(0.02)


class SlowSaver(v1.train.Saver):
    """Saver for a disk that takes its time."""

    slow_secs = 0.0

    def save(self, *args, **kwargs):
        print("saving", flush=True)
        time.sleep(self.slow_secs)
        path = super().save(*args, **kwargs)
        time.sleep(self.slow_secs)
        print("saved", flush=True)
        return path


def model_fn(features, labels, mode, params):
    weights = v1.get_variable("weights", [WEIGHTS], tf.float64, v1.zeros_initializer())
    loss = tf.reduce_mean(weights) * tf.reduce_mean(features)
    step = v1.train.get_or_create_global_step()
    scaffold = v1.train.Scaffold(
        saver=SlowSaver(max_to_keep=2, save_relative_paths=True) if params["slow_secs"] else None
    )
    train_op = tf.group(v1.assign_add(weights, tf.ones([WEIGHTS], tf.float64)), step.assign_add(1))
    return replicate.EstimatorSpec(
        mode, loss=loss, predictions=loss, train_op=train_op, scaffold=scaffold
    )


def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([2], tf.float64), tf.zeros([2])))


def receiver_fn():
    features = v1.placeholder(tf.float64, [None])
    return replicate.export.TensorServingInputReceiver(features, features)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir")
    parser.add_argument("gates")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--on_save_error", default="stop")
    parser.add_argument("--largest_file", type=int)
    parser.add_argument("--slow_secs", type=float, default=0.0)
    parser.add_argument("--export", action="store_true")
    given = parser.parse_args()
    if given.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.largest_file, given.largest_file))
    SlowSaver.slow_secs = given.slow_secs
    estimator = replicate.Estimator(
        model_fn,
        given.model_dir,
        replicate.RunConfig(
            save_checkpoints_steps=SAVE_STEPS,
            save_summary_steps=1,
            log_step_count_steps=1,
            keep_checkpoint_max=2,
            progress="off",
            on_save_error=given.on_save_error,
        ),
        {"slow_secs": given.slow_secs},
    )
    exporters = [replicate.LatestExporter("latest", receiver_fn)] if given.export else []
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(lambda: input_fn().repeat(), given.steps, [Report(given.gates)]),
        replicate.EvalSpec(input_fn, None, exporters=exporters, throttle_secs=0),
    )
    print("done", flush=True)


if __name__ == "__main__":
    v1.logging.set_verbosity(v1.logging.WARN)
    try:
        main()
    except replicate.CheckpointError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(error.code)
