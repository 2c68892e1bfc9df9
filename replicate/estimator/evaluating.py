"""The evaluation loop: from a checkpoint and labelled input to a dict of numbers.

Owns the accumulation of the model's metrics and of the mean loss over all batches, and the event
file and metric line that show them beside the training curves. `Estimator.evaluate` calls it inside
the model's graph.
"""

import contextlib
import numbers
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.errors import user_errors
from replicate.estimator.events import event_writer
from replicate.estimator.inputs import Inputs, batch_size
from replicate.estimator.metric_lines import append_metrics
from replicate.estimator.progress import ProgressHook
from replicate.estimator.run_config import RunConfig
from replicate.estimator.saving import build_saver
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.stepping import Stepper, StopHook
from replicate.estimator.steps import StepReadings
from replicate.estimator.training import STOP_GRACE_SECS
from replicate.spec import LOSS_METRIC_KEY, EstimatorSpec

v1 = tf.compat.v1

_RESERVED = (LOSS_METRIC_KEY, "global_step")


def run_evaluation(
    inputs: Inputs,
    spec: EstimatorSpec,
    checkpoint: str | None,
    config: RunConfig,
    hooks: Sequence[Any] = (),
    steps: int | None = None,
) -> dict[str, Any]:
    """Returns the metrics of the model of the default graph over the batches of its input.

    Args:
      inputs: The batch that the model reads.
      spec: The model.
      checkpoint: What to load; None to evaluate freshly initialised variables.
      config: Settings of the run.
      hooks: The caller's hooks.
      steps: Batches to take, None for all.

    Returns:
      Each metric by its name, "loss" (mean over the batches) and "global_step".

    Raises:
      ValueError: A metric takes one of those two names, or there was not a single batch.
      CheckpointError: The checkpoint cannot be loaded.
    """
    update, batches, values = _accumulators(spec)
    readings = StepReadings(update, spec.loss, batches)
    scaffold = spec.scaffold or v1.train.Scaffold()
    saver = build_saver(scaffold, config)
    creator = RestoringSessionCreator(scaffold, saver, lambda: checkpoint, config.session_config)
    progress = ProgressHook(
        "eval", readings, batch_size(inputs.features), num_steps=steps, mode=config.progress
    )
    final = v1.train.FinalOpsHook(values)
    stop = StopHook(readings, steps)
    stepper = Stepper(readings, [*hooks, *spec.evaluation_hooks, stop, progress, final])
    with (
        contextlib.closing(progress),
        user_errors(),
        v1.train.MonitoredSession(creator, stepper.hooks, STOP_GRACE_SECS) as session,
    ):
        stepper.run(session)
    if readings.step == 0:
        raise ValueError(
            "Cannot evaluate: the input ended before its first batch. Look at what input_fn "
            "returns in mode 'eval': an empty file list, or a batch larger than the data with "
            "drop_remainder=True."
        )
    return {**final.final_ops_values, "global_step": int(final.final_ops_values["global_step"])}


def write_results(eval_dir: str, results: dict[str, Any]) -> None:
    """Writes the results of one evaluation, at their global step, to an event file.

    Numbers become scalars, arrays become tensors, bytes are taken as a serialised Summary. The
    numbers are also written as a metric line, with the name of the directory as "evaluation".
    """
    summary = v1.Summary()
    for name, value in sorted(results.items()):
        if name == "global_step":
            continue
        if isinstance(value, bytes):
            summary.MergeFromString(value)
        elif isinstance(value, (numbers.Number, np.generic)) or np.ndim(value) == 0:
            summary.value.add(tag=name, simple_value=float(value))
        else:
            summary.value.add(tag=name, tensor=tf.make_tensor_proto(value))
    with tf.Graph().as_default():
        writer = event_writer(eval_dir)
    with contextlib.closing(writer):
        writer.add_summary(summary, results["global_step"])
    metrics = {name: value for name, value in sorted(results.items()) if name != "global_step"}
    name = os.path.basename(eval_dir.rstrip("/"))
    append_metrics(eval_dir, results["global_step"], {"evaluation": name, **metrics})


def _accumulators(spec: EstimatorSpec) -> tuple[Operation, Variable, dict[str, Any]]:
    """The operation that takes in a batch, their count, and the values to read at the end."""
    taken = sorted(set(_RESERVED) & set(spec.eval_metric_ops))
    if taken:
        raise ValueError(
            f"eval_metric_ops must not hold {taken}: evaluate() reports these itself. Rename them."
        )
    metrics = {**spec.eval_metric_ops, LOSS_METRIC_KEY: v1.metrics.mean(spec.loss)}
    values = {name: value for name, (value, _) in metrics.items()}
    values["global_step"] = v1.train.get_global_step()
    batches = v1.Variable(
        tf.constant(0, tf.int64),
        trainable=False,
        collections=[v1.GraphKeys.LOCAL_VARIABLES],
        name="batches",
    )
    updates = [update for _, update in metrics.values()]
    return tf.group(*updates, v1.assign_add(batches, 1)), batches, values
