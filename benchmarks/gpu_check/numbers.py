"""Trainings whose numbers must agree: N towers and one, and float16 and float32.

The first compares weights. TensorFloat-32 rounds the inputs of matrix products and convolutions to
11 significant bits. GPUs from compute capability 8.0 on have it, and TensorFlow uses it unless it
is switched off. A process uses one of the two, because TensorFlow remembers the convolution kernels
that it chose.

The second compares losses of a float16 model with a dynamic loss scale and of the same model in
float32. The loss scale starts so high that the first gradients overflow. These steps are skipped
and halve it. Then the float16 model makes as many steps as the float32 model.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf

import replicate
from benchmarks.gpu_check.machine import Devices
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from benchmarks.gpu_check.training import MODELS, OPTIMIZERS, Training, momentum
from benchmarks.tower_step import tower_models

STEPS = 30
"""Steps of each training; of a float16 model, those that change weights."""

FLOAT32_LIMIT = 2e-6
"""Largest accepted difference, relative to the largest weight, without TensorFloat-32."""

TENSOR_FLOAT_32_LIMIT = 2.0**-10
"""The same with TensorFloat-32: the distance from 1 to the next number of its format.

Both trainings round their inputs alike, until weights that differ in the last bit of float32 become
neighbours in the coarse format. A kernel for one batch size may also round where the kernel for
another does not. Emulated on a CPU, with the MLP and momentum SGD, the differences are 4.3e-6 if
both trainings round, and 5.1e-5 if only one does.
"""

HALF_BATCH_SIZE = 48
"""Examples in a batch of float16 models, few because CPUs compute slowly in float16."""

TOLERANCE = 0.05
"""Largest accepted difference of the falls of the loss, as a share of the float32 model's."""

LOSS_SCALE = replicate.DynamicLossScale(initial=2.0**24, growth_steps=1000)

MOST_SKIPPED = 20
"""Largest accepted number of skipped steps: with the loss scale below 16, gradients are not finite
for another reason than the scale."""


def compare_towers(
    devices: Devices,
    steps: int = STEPS,
    tensor_float_32: bool = False,
    limit: float = FLOAT32_LIMIT,
) -> Outcome:
    """Compares N towers with one: the largest difference of the weights after some steps."""
    tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)
    rows = [
        [name, optimizer, *_compare_weights(model(), optimizer, devices, steps)]
        for name, model in MODELS.items()
        for optimizer in OPTIMIZERS
    ]
    worst = max(float(row[2]) for row in rows)
    count = len(devices.names)
    title = f"Largest difference of weights after {steps} steps, relative to the largest weight"
    heads = ("model", "optimizer", f"{count} towers", "one tower, again", "loss, last / first")
    # A comparison with NaN is never within the limit.
    is_ok = all(float(row[2]) <= limit for row in rows)
    return judge(
        is_ok, f"largest difference {worst:.1e}, limit {limit:.1e}", Table(title, heads, rows)
    )


def compare_tensor_float_32(devices: Devices) -> Outcome:
    """Compares N towers with one, with TensorFloat-32."""
    return compare_towers(devices, STEPS, True, TENSOR_FLOAT_32_LIMIT)


def _compare_weights(
    model: tower_models.Model, optimizer: str, devices: Devices, steps: int
) -> list[float]:
    """Returns differences of N towers and of one tower trained again, and the fall of the loss.

    One tower again differs where kernels add in an order of their own.
    """
    weights = []
    for names in (devices.names[:1], devices.names[:1], devices.names):
        training = Training(model, names, OPTIMIZERS[optimizer])
        losses = training.losses(steps)
        weights.append(training.weights())
    one, again, towers = weights
    differences = [relative_difference(each, one) for each in (towers, again)]
    return [*differences, losses[-1] / losses[0]]


def relative_difference(values: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Returns the largest difference of two lists of arrays, relative to the largest entry."""
    largest = max(np.abs(array).max() for array in expected)
    pairs = zip(values, expected, strict=True)
    return float(max(np.abs(one - other).max() for one, other in pairs) / largest)


def compare_precisions(devices: Devices, steps: int = STEPS) -> Outcome:
    """Trains an MLP and a ConvNet in both precisions."""
    rows = [
        [name, *_compare_losses(model(HALF_BATCH_SIZE), devices, steps)]
        for name, model in MODELS.items()
    ]
    worst = max(row[4] for row in rows)
    most = max(row[5] for row in rows)
    title = f"Loss of {steps} steps of momentum SGD on {len(devices.names)} towers"
    heads = ("model", "first loss", "last, float32", "last, float16", "difference / fall")
    table = Table(title, (*heads, "skipped steps", "loss scale"), rows)
    is_ok = all(row[4] <= TOLERANCE and 0 < row[5] <= MOST_SKIPPED for row in rows)
    summary = (
        f"losses differ by {worst:.1%} of their fall, limit {TOLERANCE:.0%}; at most {most} "
        f"skipped steps, accepted are 1 to {MOST_SKIPPED}"
    )
    return judge(is_ok, summary, table)


def _compare_losses(model: tower_models.Model, devices: Devices, steps: int) -> list[Any]:
    """Returns the cells of a row of the table, after the name."""
    losses = Training(model, devices.names, momentum).losses(steps)
    half = Training(model, devices.names, momentum, LOSS_SCALE)
    skipped, last = 0, math.nan
    while half.value("global_step") < steps and skipped <= MOST_SKIPPED:
        (last,) = half.losses(1)
        skipped = int(half.value("loss_scale/skipped_steps"))
    difference = abs(last - losses[-1]) / abs(losses[0] - losses[-1])
    scale = float(half.value("loss_scale/factor"))
    return [losses[0], losses[-1], last, difference, skipped, scale]
