"""A training program whose weights tell how many updates they had, for clusters that lose tasks.

    python trainer.py async|sync|average|reduce|evaluate MODEL_DIR STEPS PHASE_STEPS

Trains up to STEPS in the role that TF_CONFIG gives. Each process prints "imported" at its start and
"step N" after each of its steps, the evaluator "evaluated N". When the step is PHASE_STEPS, 2 *
PHASE_STEPS ..., it waits for the file MODEL_DIR/go-1, go-2 ..., so that whoever kills tasks has the
time to. With average, each worker makes two steps of its own for each step, which is then an
averaging. With reduce, there are no parameter servers, and each process prints "saving" when it
begins to save; with evaluate, all of them also evaluate together. Training ends before STEPS when
there is a file MODEL_DIR/end. A process waits before it does anything as long as there is a file
MODEL_DIR/away-TASK-INDEX. With IMPORT_SECS in the environment it first waits for a random time up
to that, since a fork of a process that has imported TensorFlow would start at once.

The gradient of "total" is always 1. That of "weights" is a function of their value alone, the same
for all workers: in synchronous training everything is known from the number of steps.
"""

import json
import os
import random
import time

import tensorflow as tf

import replicate

v1 = tf.compat.v1
RATE = 2.0**-6
MOMENTUM = 0.5
TARGET = (1.0, -2.0, 3.0)
SAVE_STEPS = 10
TIMEOUT_SECS = float(os.environ.get("TIMEOUT_SECS", "120"))
STEP_TIMEOUT_SECS = float(os.environ.get("STEP_TIMEOUT_SECS", TIMEOUT_SECS))
REPLICAS = int(os.environ.get("REPLICAS", "0"))
INTERVAL_STEPS = 2
REDUCING = ("reduce", "evaluate")
IMPORT_SECS = float(os.environ.get("IMPORT_SECS", "0"))


class Report(v1.train.SessionRunHook):
    """Prints each step, and waits between the phases."""

    def __init__(self, folder, steps, phase_steps):
        self._folder = folder
        self._steps = steps
        self._phase_steps = phase_steps

    def begin(self):
        self._step = v1.train.get_global_step()

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        step = int(run_values.results)
        print(f"step {step}", flush=True)
        gate = os.path.join(self._folder, f"go-{step // self._phase_steps}")
        while self._phase_steps <= step < self._steps and not os.path.exists(gate):
            time.sleep(0.02)
        if os.path.exists(os.path.join(self._folder, "end")):
            run_context.request_stop()
        time.sleep(0.02)


class ReportSaving(v1.train.CheckpointSaverListener):
    """Prints when a save begins, and lets the rest of the test act on that."""

    def before_save(self, session, global_step_value):
        print(f"saving {global_step_value}", flush=True)
        time.sleep(0.02)


class ReportEvaluation(v1.train.SessionRunHook):
    """Prints the step of what is evaluated."""

    def begin(self):
        self._step = v1.train.get_global_step()

    def end(self, session):
        print(f"evaluated {session.run(self._step)}", flush=True)


def model_fn(features, labels, mode, params, config):
    averages = params == "average" and mode == replicate.ModeKeys.TRAIN
    getter = replicate.ModelAverageCustomGetter.of(config) if averages else None
    with v1.variable_scope("", custom_getter=getter):
        total = v1.get_variable("total", [], tf.float64, v1.zeros_initializer())
        weights = v1.get_variable("weights", [len(TARGET)], tf.float64, v1.zeros_initializer())
    target = tf.constant(TARGET, tf.float64) * tf.reduce_mean(features)
    loss = total + tf.reduce_sum((weights - target) ** 2) / 2
    step = v1.train.get_or_create_global_step()
    if mode != replicate.ModeKeys.TRAIN:
        return replicate.EstimatorSpec(mode, loss=loss)
    optimizer, hooks = make_optimizer(params, config, getter)
    train_op = optimizer.minimize(loss, step)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def make_optimizer(mode, config, getter):
    """Returns the optimizer of a way of training, and its hooks."""
    if mode in REDUCING:
        return replicate.TowerOptimizer(v1.train.MomentumOptimizer(RATE, MOMENTUM)), []
    descent = v1.train.GradientDescentOptimizer(RATE, use_locking=True)
    if mode == "async":
        return descent, []
    if mode == "average":
        optimizer = replicate.ModelAverageOptimizer(
            descent,
            num_worker=config.num_worker_replicas,
            is_chief=config.is_chief,
            ma_custom_getter=getter,
            interval_steps=INTERVAL_STEPS,
            patience_secs=300,
        )
        return optimizer, [optimizer.make_session_run_hook()]
    optimizer = v1.train.SyncReplicasOptimizer(
        v1.train.MomentumOptimizer(RATE, MOMENTUM),
        replicas_to_aggregate=REPLICAS or config.num_worker_replicas or 1,
        total_num_replicas=config.num_worker_replicas or 1,
    )
    return optimizer, [optimizer.make_session_run_hook(config.is_chief)]


def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([2], tf.float64), tf.zeros([2], tf.float64)))


def stay_away(folder):
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    while os.path.exists(os.path.join(folder, f"away-{task['type']}-{task['index']}")):
        time.sleep(0.02)


def main(mode, folder, steps, phase_steps):
    stay_away(folder)
    reduces = replicate.AllReduce(
        timeout_secs=STEP_TIMEOUT_SECS, check_every=5, evaluates=mode == "evaluate"
    )
    estimator = replicate.Estimator(
        model_fn,
        model_dir=folder,
        config=replicate.RunConfig(
            save_checkpoints_steps=SAVE_STEPS,
            session_creation_timeout_secs=TIMEOUT_SECS,
            step_timeout_secs=STEP_TIMEOUT_SECS,
            progress="off",
            train_distribute=reduces if mode in REDUCING else None,
        ),
        params=mode,
    )
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(
            lambda: input_fn().repeat(),
            max_steps=int(steps),
            hooks=[Report(folder, int(steps), int(phase_steps))],
            saving_listeners=[ReportSaving()] if mode in REDUCING else (),
        ),
        replicate.EvalSpec(
            input_fn, steps=None, hooks=[ReportEvaluation()], start_delay_secs=0, throttle_secs=0
        ),
    )


if __name__ == "__main__":
    from as_task import run_as_task

    time.sleep(random.SystemRandom().uniform(0, IMPORT_SECS))
    run_as_task(main)
