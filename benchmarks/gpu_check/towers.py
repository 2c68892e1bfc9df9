"""N towers compared with one tower: the largest difference of the weights after some steps.

TensorFloat-32 rounds the inputs of matrix products and convolutions to 11 significant bits. GPUs
from compute capability 8.0 on have it, and TensorFlow uses it unless it is switched off. A process
uses one of the two, because TensorFlow remembers the convolution kernels that it chose.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.gpu_check.devices import Devices
from benchmarks.gpu_check.models import MODELS
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from benchmarks.gpu_check.training import OPTIMIZERS, Training
from benchmarks.tower_step import tower_models

STEPS = 30
"""Steps of each training."""

FLOAT32_LIMIT = 2e-6
"""Largest accepted difference, relative to the largest weight, without TensorFloat-32."""

TENSOR_FLOAT_32_LIMIT = 2.0**-10
"""The same with TensorFloat-32: the distance from 1 to the next number of its format.

Both trainings round their inputs alike, until weights that differ in the last bit of float32 become
neighbours in the coarse format. A kernel for one batch size may also round where the kernel for
another does not. Emulated on a CPU, with the MLP and momentum SGD, the differences are 4.3e-6 if
both trainings round, and 5.1e-5 if only one does.
"""


class Comparison(NamedTuple):
    """Largest differences of weights, relative to the largest weight.

    Attributes:
      again: One tower, trained twice. Not 0 where kernels add in an order of their own.
      towers: N towers and one tower.
      fall: Last loss of one tower divided by its first.
    """

    again: float
    towers: float
    fall: float


def compare(devices: Devices, steps: int = STEPS) -> Outcome:
    """Compares without TensorFloat-32."""
    return _compare_all(devices, False, FLOAT32_LIMIT, steps)


def compare_tensor_float_32(devices: Devices, steps: int = STEPS) -> Outcome:
    """Compares with TensorFloat-32."""
    return _compare_all(devices, True, TENSOR_FLOAT_32_LIMIT, steps)


def relative_difference(values: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Returns the largest difference of two lists of arrays, relative to the largest entry."""
    largest = max(np.abs(array).max() for array in expected)
    pairs = zip(values, expected, strict=True)
    return float(max(np.abs(one - other).max() for one, other in pairs) / largest)


def _compare_all(devices: Devices, tensor_float_32: bool, limit: float, steps: int) -> Outcome:
    tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)
    found = {
        (name, optimizer): _compare(model(), optimizer, devices, steps)
        for name, model in MODELS.items()
        for optimizer in OPTIMIZERS
    }
    worst = max(comparison.towers for comparison in found.values())
    table = Table(
        f"Largest difference of weights after {steps} steps, relative to the largest weight",
        (
            "model",
            "optimizer",
            f"{len(devices.names)} towers",
            "one tower, again",
            "loss, last / first",
        ),
        list(_rows(found)),
    )
    # A comparison with NaN is never within the limit.
    is_ok = all(comparison.towers <= limit for comparison in found.values())
    return judge(is_ok, f"largest difference {worst:.1e}, limit {limit:.1e}", table)


def _compare(model: tower_models.Model, optimizer: str, devices: Devices, steps: int) -> Comparison:
    prepare = OPTIMIZERS[optimizer]
    weights = []
    for names in (devices.names[:1], devices.names[:1], devices.names):
        training = Training(model, names, prepare)
        losses = training.run(steps)
        weights.append(training.weights())
    one, again, towers = weights
    return Comparison(
        relative_difference(again, one),
        relative_difference(towers, one),
        losses[-1] / losses[0],
    )


def _rows(found: Mapping[tuple[str, str], Comparison]) -> Iterator[list[str | float]]:
    for (model, optimizer), comparison in found.items():
        yield [model, optimizer, comparison.towers, comparison.again, comparison.fall]
