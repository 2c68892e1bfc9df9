"""Process that `benchmarks.scaling` starts: trains until the chief has measured its steps.

python -m benchmarks.scaling.task MODE LAYERS WIDTH BATCH WORKERS STEPS MODEL_DIR

The chief prints the seconds of its steps, block by block, as a line of JSON. Then all processes are
ended.
"""

import json
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import kfac
import replicate
from benchmarks.scaling.chains import (
    INTERVAL,
    KFAC_MODES,
    RATE,
    ROUNDS,
    Shape,
    batch_of,
    initial_weights,
    loss_of,
)

v1 = tf.compat.v1

_READY_STEPS = 10


def report(ends: Sequence[float]) -> None:
    """Prints the mean seconds of a step in each block of `INTERVAL` steps."""
    print(json.dumps((np.diff(ends[::INTERVAL]) / INTERVAL).tolist()), flush=True)


class Times(v1.train.SessionRunHook):
    """Measures the chief's steps while all workers train."""

    def __init__(self, folder: str, task: int, workers: int, steps: int) -> None:
        self._folder, self._task = pathlib.Path(folder), task
        self._workers, self._steps = workers, steps
        self._done, self._ends = 0, list[float]()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Notes the end of a step, and reports the chief's if there are enough."""
        del run_context, run_values
        now = time.perf_counter()
        self._done += 1
        if self._done == _READY_STEPS:
            (self._folder / f"ready-{self._task}").touch()
        if self._task == 0 and (self._ends or self._all_are_ready()):
            self._ends.append(now)
            if len(self._ends) == self._steps + 1:
                report(self._ends)

    def _all_are_ready(self) -> bool:
        return len(list(self._folder.glob("ready-*"))) == self._workers


def run_config(**settings: Any) -> replicate.RunConfig:
    """Returns a RunConfig that adds nothing to the steps, on one thread."""
    return replicate.RunConfig(
        save_checkpoints_steps=10**9,
        save_summary_steps=None,
        log_step_count_steps=None,
        progress="off",
        checkpoint_save_graph_def=False,
        save_input_position=False,
        session_config=v1.ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=1),
        **settings,
    )


def train_op_of(mode: str, shape: Shape, features: Any, config: Any) -> tuple[Any, list[Any]]:
    """Builds a worker's training; returns its operation, and its hooks."""
    task, workers = config.global_id_in_cluster or 0, config.num_worker_replicas
    step = v1.train.get_global_step()
    sgd = v1.train.GradientDescentOptimizer(RATE)
    if mode in KFAC_MODES:
        layers = kfac.LayerCollection()
        loss = loss_of(features, shape, layers)
        optimizer = kfac.ClusterKfacOpt(
            kfac.WorkerRole(mode, workers, task),
            layer_collection=layers,
            learning_rate=RATE,
            damping=0.1,
            momentum=None,
            invert_every=INTERVAL,
        )
        return optimizer.minimize(loss, step), [optimizer.make_session_run_hook()]
    if mode == "averaging":
        getter = replicate.ModelAverageCustomGetter.of(config)
        with v1.variable_scope("", custom_getter=getter):
            loss = loss_of(features, shape)
        average = replicate.ModelAverageOptimizer(sgd, workers, config.is_chief, getter, INTERVAL)
        return average.minimize(loss, step), [average.make_session_run_hook()]
    loss = loss_of(features, shape)
    if mode == "synchronous":
        synchronous = v1.train.SyncReplicasOptimizer(sgd, workers)
        hook = synchronous.make_session_run_hook(config.is_chief, num_tokens=0)
        return synchronous.minimize(loss, step), [hook]
    optimizer = replicate.TowerOptimizer(sgd) if mode in ("all_reduce", *ROUNDS) else sgd
    return optimizer.minimize(loss, step), []


def train_estimator(mode: str, shape: Shape, workers: int, steps: int, folder: str) -> None:
    """Trains by an Estimator until the process is ended."""

    def model_fn(features: Any, labels: Any, mode: str, config: replicate.RunConfig) -> Any:
        del labels
        train_op, hooks = train_op_of(chosen, shape, features, config)
        loss = tf.zeros([])
        times = Times(folder, config.global_id_in_cluster or 0, workers, steps)
        hooks = [*hooks, times]
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    chosen, batch = mode, batch_of(shape)
    reduces = {
        "all_reduce": replicate.AllReduce(check_every=0),
        **{
            each: replicate.AllReduce(every=INTERVAL, **settings)
            for each, settings in ROUNDS.items()
        },
    }
    estimator = replicate.Estimator(
        model_fn, folder, run_config(train_distribute=reduces.get(mode))
    )
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(lambda: tf.data.Dataset.from_tensors(batch).repeat(), max_steps=10**9),
        replicate.EvalSpec(lambda: tf.data.Dataset.from_tensors(batch), steps=1),
    )


def train_keras(shape: Shape, steps: int) -> None:
    """Trains by Keras' fit; prints the seconds of its steps."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras = tf.keras
    ends: list[float] = []

    class Ends(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends.append(time.perf_counter())

    with strategy.scope():
        layers = [
            keras.layers.Dense(
                shape.width,
                activation="tanh" if index < shape.layers - 1 else None,
                use_bias=False,
                kernel_initializer=keras.initializers.Constant(initial),
            )
            for index, initial in enumerate(initial_weights(shape))
        ]
        model = keras.Sequential([keras.Input([shape.width]), *layers])
        model.compile(
            optimizer=keras.optimizers.SGD(RATE),
            loss=lambda labels, outputs: tf.reduce_sum(tf.square(outputs), axis=1),
        )
    whole = np.concatenate([batch_of(shape)] * strategy.num_replicas_in_sync)
    dataset = tf.data.Dataset.from_tensors((whole, np.zeros([len(whole), 1], "float32"))).repeat()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    model.fit(
        dataset.with_options(options),
        steps_per_epoch=steps + _READY_STEPS,
        epochs=1,
        verbose=0,
        callbacks=[Ends()],
    )
    report(ends[_READY_STEPS:])


def main(mode: str, *numbers: str) -> None:
    """Trains. Takes the words of the command line."""
    layers, width, batch, workers, steps = map(int, numbers[:5])
    shape = Shape(layers, width, batch)
    v1.logging.set_verbosity(v1.logging.ERROR)
    if mode == "keras":
        train_keras(shape, steps)
    else:
        train_estimator(mode, shape, workers, steps, numbers[5])


if __name__ == "__main__":
    main(*sys.argv[1:])
