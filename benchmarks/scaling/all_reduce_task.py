"""Process that `all_reduce_points` starts: trains, and prints the seconds of its steps.

python -m benchmarks.scaling.all_reduce_task MODE LAYERS WIDTH BATCH STEPS MODEL_DIR
"""

import json
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

import replicate
from benchmarks.scaling.chains import RATE, Shape, batch_of, initial_weights, loss_of

v1 = tf.compat.v1

_WARM_STEPS = 10


class Times(v1.train.SessionRunHook):
    """Seconds between the ends of steps."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Notes the end of a step."""
        del run_context, run_values
        self.ends.append(time.perf_counter())


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


def train_estimator(mode: str, shape: Shape, steps: int, folder: str) -> list[float]:
    """Trains by an Estimator; returns the ends of its steps."""

    def model_fn(features: Any, labels: Any, mode: str, config: replicate.RunConfig) -> Any:
        del labels
        loss = loss_of(features, shape)
        optimizer: Any = v1.train.GradientDescentOptimizer(RATE)
        hooks = []
        if synchronous:
            optimizer = v1.train.SyncReplicasOptimizer(optimizer, config.num_worker_replicas)
            hooks = [optimizer.make_session_run_hook(config.is_chief, num_tokens=0)]
        else:
            optimizer = replicate.TowerOptimizer(optimizer)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    synchronous = mode == "synchronous"
    batch = batch_of(shape)
    config = run_config(
        train_distribute=None if synchronous else replicate.AllReduce(check_every=0)
    )
    times = Times()
    estimator = replicate.Estimator(model_fn, folder, config)
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(
            lambda: tf.data.Dataset.from_tensors(batch).repeat(),
            max_steps=steps + _WARM_STEPS,
            hooks=[times],
        ),
        replicate.EvalSpec(lambda: tf.data.Dataset.from_tensors(batch), steps=1),
    )
    return times.ends


def train_keras(shape: Shape, steps: int) -> list[float]:
    """Trains by Keras' fit; returns the ends of its steps."""
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
        steps_per_epoch=steps + _WARM_STEPS,
        epochs=1,
        verbose=0,
        callbacks=[Ends()],
    )
    return ends


def main(mode: str, layers: str, width: str, batch: str, steps: str, folder: str) -> None:
    """Trains and prints the seconds of each step as JSON."""
    shape = Shape(int(layers), int(width), int(batch))
    v1.logging.set_verbosity(v1.logging.ERROR)
    if mode == "keras":
        ends = train_keras(shape, int(steps))
    else:
        ends = train_estimator(mode, shape, int(steps), folder)
    print(json.dumps(np.diff(ends).tolist()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
