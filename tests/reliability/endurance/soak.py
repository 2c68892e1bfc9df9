"""A long training with evaluations and exports, which prints what the process holds.

    python soak.py MODEL_DIR SECONDS INTERVAL

Trains the ConvNet of the examples by K-FAC on two towers. Every INTERVAL seconds it saves,
evaluates and exports. Every tenth of an interval it prints a line of JSON: seconds since the start,
the step, resident memory in bytes, open file descriptors, threads, and files in the model
directory.
"""

import json
import os
import sys
import time
from pathlib import Path

import psutil
import tensorflow as tf

import replicate
from examples import convnet_model, mnist

v1 = tf.compat.v1
TOWERS = 2
BATCH = 64
PARAMS = {"optimizer": "kfac", "learning_rate": 0.001, "momentum": 0.9, "damping": 0.1}


class Holdings(v1.train.SessionRunHook):
    """Prints what the process holds, and stops training when the time is over."""

    def __init__(self, folder, secs, every_secs):
        self._folder = Path(folder)
        self._every_secs = every_secs
        self._process = psutil.Process()
        self._started = time.monotonic()
        self._end = self._started + secs
        self._next = self._started

    def begin(self):
        self._step = v1.train.get_global_step()

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_secs
            self._print(int(run_values.results))
        if now >= self._end:
            run_context.request_stop()

    def _print(self, step):
        entry = {
            "seconds": round(time.monotonic() - self._started, 1),
            "step": step,
            "memory": self._process.memory_info().rss,
            "descriptors": self._process.num_fds(),
            "threads": self._process.num_threads(),
            "files": sum(len(files) for _, _, files in os.walk(self._folder)),
        }
        print(json.dumps(entry), flush=True)


def serving_input_receiver_fn():
    images = v1.placeholder(tf.float32, [None, 8, 8, 1])
    return replicate.export.TensorServingInputReceiver(images, images)


def main(folder, secs, interval):
    secs, interval = float(secs), float(interval)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * TOWERS
    )
    data = mnist.load()
    model_fn = replicate.replicate_model_fn(
        convnet_model.model_fn, devices=[f"/cpu:{tower}" for tower in range(TOWERS)]
    )
    config = replicate.RunConfig(
        tf_random_seed=1, save_checkpoints_secs=interval, keep_checkpoint_max=3, progress="off"
    )
    estimator = replicate.Estimator(model_fn, folder, config, PARAMS)
    exporter = replicate.LatestExporter("latest", serving_input_receiver_fn, exports_to_keep=2)
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(
            lambda: mnist.input_fn(*data.train, BATCH, training=True, seed=1),
            hooks=[Holdings(folder, secs, interval / 10)],
        ),
        replicate.EvalSpec(
            lambda: mnist.input_fn(*data.test, BATCH, training=False),
            steps=None,
            exporters=[exporter],
            throttle_secs=int(interval),
        ),
    )


if __name__ == "__main__":
    v1.logging.set_verbosity(v1.logging.ERROR)
    main(*sys.argv[1:])
