"""Evaluation of a checkpoint: metrics over all batches of an input.

Owns the accumulation of the model's metrics and of the mean loss over all batches, and the event
file and metric line with the results. `Estimator.evaluate` calls it inside
the model's graph.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.all_reduce.metric_sums import MetricSums
from replicate.estimator.cluster.metric_exchange import MetricExchange
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.hooks.metric_lines import append_metrics
from replicate.estimator.hooks.progress import ProgressHook
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.saving import build_saver
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook
from replicate.estimator.input_batches import Inputs, batch_size
from replicate.estimator.log import log, log_evaluation
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.training import STOP_GRACE_SECS
from replicate.graph_ops.checks import user_errors
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
    load: Callable[[v1.Session], None] | None = None,
    exchange: MetricExchange | None = None,
) -> dict[str, Any]:
    """Returns the metrics of the model of the default graph over `steps` batches, by default all.

    Without a checkpoint, variables are freshly initialised, then assigned by `load`. `exchange`
    adds up the metrics over workers, each of which evaluates its share of the batches.

    Returns:
      Each metric by its name, "loss" (mean over the batches) and "global_step".

    Raises:
      ValueError: A metric takes one of those two names, there was not a single batch, or a metric
        cannot be added up over workers.
      CheckpointError: The checkpoint cannot be loaded.
    """
    metrics = _metrics(spec)
    update, batches, values = _accumulators(metrics)
    readings = StepReadings(update, spec.loss, batches)
    scaffold = _with_local_variables(spec.scaffold)
    saver = build_saver(scaffold, config)
    creator = RestoringSessionCreator(
        scaffold,
        saver,
        lambda: checkpoint,
        config.session_config,
        target=config.evaluation_master,
        keeps_values=False,
        load=load,
    )
    progress = ProgressHook(
        "eval", readings, batch_size(inputs.features), num_steps=steps, mode=config.progress
    )
    results = v1.train.FinalOpsHook(values)
    limit = steps if exchange is None or steps is None else exchange.share_of(steps)
    stop = StopHook(readings, limit)
    adding = None if exchange is None else _AddOverWorkers(exchange, metrics, readings, checkpoint)
    others = [*hooks, *spec.evaluation_hooks, stop, progress, results]
    loop = StepLoop(readings, [*([adding] if adding else []), *others])
    with (
        contextlib.closing(progress),
        user_errors(),
        v1.train.MonitoredSession(creator, loop.hooks, STOP_GRACE_SECS) as session,
    ):
        loop.run(session)
    if (adding.batches if adding else readings.step) == 0:
        raise ValueError(
            "Cannot evaluate: the input ended before its first batch, or a hook asked for the end. "
            "Look at what input_fn returns in mode 'eval': an empty file list, or a batch larger "
            "than the data with drop_remainder=True."
        )
    return {**results.final_ops_values, "global_step": int(results.final_ops_values["global_step"])}


def write_results(eval_dir: str, results: dict[str, Any], files: EventFiles) -> None:
    """Writes the results of one evaluation, at their global step, to an event file, and logs them.

    Numbers become scalars and arrays become tensors, under the names of their metrics. Bytes are
    taken as a serialised Summary, whose values get the tags "metric/0", "metric/1" and so on.
    Other results are left out with a warning. Numbers are also written as a metric line, with the
    name of the directory as "evaluation". What cannot be written is a warning: the caller has the
    results.
    """
    log_evaluation(results)
    metrics = {name: value for name, value in sorted(results.items()) if name != "global_step"}
    summary = v1.Summary()
    for name, value in metrics.items():
        if value is not None:
            summary.value.extend(_summary_values(name, value))
    writer = files.of(eval_dir)
    writer.add_summary(summary, results["global_step"])
    writer.flush()
    name = os.path.basename(eval_dir.rstrip("/"))
    append_metrics(eval_dir, results["global_step"], {"evaluation": name, **metrics})


def _summary_values(name: str, value: Any) -> list[Any]:
    """Returns the entries of a Summary that show a metric."""
    make = v1.Summary.Value
    if isinstance(value, bytes):
        return _parsed_summary(name, value)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return [make(tag=name, node_name=name, tensor=tf.make_tensor_proto(value))]
    try:
        return [make(tag=name, simple_value=float(value))]
    except (TypeError, ValueError):
        log.warning(
            "Metric %r is left out of the event file: it is %r, and must be a number, an array, or "
            "the bytes of a Summary.",
            name,
            value,
        )
        return []


def _parsed_summary(name: str, serialized: bytes) -> list[Any]:
    """Returns the entries of a serialised Summary, with tags that begin with a metric's name."""
    try:
        values = list(v1.Summary.FromString(serialized).value)
    except Exception as error:  # Of protobuf, which has its own class for it.
        log.warning(
            "Metric %r is left out of the event file: its bytes are no Summary, such as "
            "tf.compat.v1.summary.image makes (%s).",
            name,
            error,
        )
        return []
    for number, value in enumerate(values):
        value.tag = f"{name}/{number}"
    return values


@final
class _AddOverWorkers(v1.train.SessionRunHook):
    """Adds up the metrics over workers after the last batch of this one, before other hooks end.

    Attributes:
      batches: Batches that all workers have evaluated, after the end.
    """

    def __init__(
        self,
        exchange: MetricExchange,
        metrics: Mapping[str, tuple[Any, Any]],
        readings: StepReadings,
        checkpoint: str | None,
    ):
        self.batches = 0
        self._exchange = exchange
        self._readings = readings
        self._sums = MetricSums(metrics)
        self._facts = [f"checkpoint {os.path.basename(checkpoint or 'none')}", *self._sums.facts]

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Reads the metrics before the first batch."""
        del coord
        self._sums.begin(session)

    def end(self, session: v1.Session) -> None:
        """Waits for the other workers, and sets the metrics of this one to the sums of all."""
        parts = [np.int64(self._readings.step), *self._sums.read(session)]
        batches, *totals = self._exchange.totals(self._facts, parts)
        self._sums.write(session, totals)
        self.batches = int(batches)


def _metrics(spec: EstimatorSpec) -> dict[str, tuple[Any, Any]]:
    """Returns the metrics of a model and its mean loss: value and update by name."""
    taken = sorted(set(_RESERVED) & set(spec.eval_metric_ops))
    if taken:
        raise ValueError(
            f"eval_metric_ops must not hold {taken}: evaluate() reports these itself. Rename them."
        )
    return {**spec.eval_metric_ops, LOSS_METRIC_KEY: v1.metrics.mean(spec.loss)}


def _accumulators(
    metrics: Mapping[str, tuple[Any, Any]],
) -> tuple[Operation, Variable, dict[str, Any]]:
    """Returns the operation that adds a batch, the count of batches, and the final values."""
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


def _with_local_variables(scaffold: v1.train.Scaffold) -> v1.train.Scaffold:
    """Returns a Scaffold that initialises the accumulators, too, if it has a local_init_op."""
    if scaffold.local_init_op is None:  # Its default, made later, covers all.
        return scaffold
    every = v1.group(scaffold.local_init_op, v1.train.Scaffold.default_local_init_op())
    return v1.train.Scaffold(local_init_op=every, copy_from_scaffold=scaffold)
