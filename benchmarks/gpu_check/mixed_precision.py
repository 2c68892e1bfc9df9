"""A float16 model with a dynamic loss scale, compared with the same model in float32.

The loss scale starts so high that the first gradients overflow. These steps are skipped and halve
it. Then the float16 model makes as many steps as the float32 model.
"""

import typing
from typing import Any

import tensorflow as tf

import replicate
from benchmarks.gpu_check.devices import Devices
from benchmarks.gpu_check.models import MODELS
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from benchmarks.gpu_check.training import Training, momentum
from benchmarks.tower_step import tower_models

STEPS = 30
"""Steps that change weights."""

BATCH_SIZE = 48
"""Examples in a batch, few because CPUs compute slowly in float16."""

TOLERANCE = 0.05
"""Largest accepted difference of the falls of the loss, as a share of the float32 model's."""

LOSS_SCALE = replicate.DynamicLossScale(initial=2.0**24, growth_steps=1000)

MOST_SKIPPED = 20
"""Largest accepted number of skipped steps: with the loss scale below 16, gradients are not finite
for another reason than the scale."""


@typing.final
class HalfPrecision(tower_models.Model):
    """A model that computes its logits in float16, from float32 parameters and features."""

    def __init__(self, model: tower_models.Model) -> None:
        self.parameters = model.parameters
        self.batch = model.batch
        self._model = model

    def logits(self, parameters: tower_models.Parameters, features: Any) -> Any:
        """Returns the logits, float16 [batch, classes]."""
        half = {name: tf.cast(value, tf.float16) for name, value in parameters.items()}
        return self._model.logits(half, tf.cast(features, tf.float16))


def compare(devices: Devices, steps: int = STEPS) -> Outcome:
    """Trains an MLP and a ConvNet in both precisions."""
    rows = [[name, *_compare(model(BATCH_SIZE), devices, steps)] for name, model in MODELS.items()]
    worst = max(row[4] for row in rows)
    most = max(row[5] for row in rows)
    table = Table(
        f"Loss of {steps} steps of momentum SGD on {len(devices.names)} towers",
        (
            "model",
            "first loss",
            "last, float32",
            "last, float16",
            "difference / fall",
            "skipped steps",
            "loss scale",
        ),
        rows,
    )
    is_ok = all(row[4] <= TOLERANCE and 0 < row[5] <= MOST_SKIPPED for row in rows)
    summary = (
        f"losses differ by {worst:.1%} of their fall, limit {TOLERANCE:.0%}; at most {most} "
        f"skipped steps, accepted are 1 to {MOST_SKIPPED}"
    )
    return judge(is_ok, summary, table)


def _compare(model: tower_models.Model, devices: Devices, steps: int) -> list[Any]:
    """Returns the cells of a row of the table, after the name."""
    losses = Training(model, devices.names, momentum).run(steps)
    half = Training(HalfPrecision(model), devices.names, momentum, LOSS_SCALE)
    last = half.run(1)[0]
    while (
        half.value("global_step") < steps and half.value("loss_scale/skipped_steps") <= MOST_SKIPPED
    ):
        last = half.run(1)[0]
    difference = abs(last - losses[-1]) / abs(losses[0] - losses[-1])
    skipped = int(half.value("loss_scale/skipped_steps"))
    return [
        losses[0],
        losses[-1],
        last,
        difference,
        skipped,
        float(half.value("loss_scale/factor")),
    ]
