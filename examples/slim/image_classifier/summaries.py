"""Summaries of a training run: activations, losses, variables, gradients, learning rate.

Owns the summaries of the first clone and of the whole model, and the hook that writes them every so
many seconds. The runtime writes the speed, evaluation its own results.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

import model_deploy

v1 = tf.compat.v1
Tensor = Any
Variable = Any


def add_summaries(
    clone: model_deploy.Clone,
    model_variables: Sequence[Variable],
    learning_rate: Tensor,
    total_loss: Tensor,
) -> None:
    """Adds the summaries of a training graph, under the tags of slim's program.

    The clone is the first one, whose outputs have end points. Each variable gets a histogram.
    """
    for name, activations in clone.outputs.end_points.items():
        v1.summary.histogram(f"activations/{name}", activations)
        v1.summary.scalar(f"sparsity/{name}", tf.math.zero_fraction(activations))
    for loss in v1.get_collection(v1.GraphKeys.LOSSES, clone.scope):
        v1.summary.scalar(f"losses/{loss.op.name}", loss)
    for variable in model_variables:
        _add(tf.raw_ops.HistogramSummary(tag=variable.op.name, values=variable))
    v1.summary.scalar("learning_rate", learning_rate)
    _add(tf.raw_ops.ScalarSummary(tags="total_loss", values=total_loss))


def _add(summary: Tensor) -> None:
    """Adds a summary whose tag is the name of an op: `v1.summary` would add a number to it."""
    v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)


def add_gradient_summaries(gradients: Iterable[tuple[Any, Variable]]) -> None:
    """Adds a histogram of the gradient of each variable, and the norm of it."""
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        name = f"gradients/{variable.op.name}"
        v1.summary.histogram(name, values)
        v1.summary.scalar(f"{name}_norm", tf.linalg.global_norm([values]))


def writer_hooks(folder: str, every_secs: float) -> list[v1.train.SessionRunHook]:
    """Returns the hooks that write the default graph's summaries. Empty if `every_secs` is 0.

    They go to an event file of their own beside the runtime's; the suffix keeps the names apart.
    """
    if not every_secs:
        return []
    writer = v1.summary.FileWriter(folder, filename_suffix=".summaries")
    merged = v1.summary.merge_all()
    return [
        v1.train.SummarySaverHook(save_secs=every_secs, summary_writer=writer, summary_op=merged)
    ]
