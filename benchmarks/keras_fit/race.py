"""Trains one network of Keras 3 with several optimizers, from the same weights on the same batches.

The loss is that of a fixed part of the training set; with networks for images it is the share of
held-out images that are taken for another class. Time is that of the processors, which other
work on the machine changes less than that of the clock. Neither the measurement of the loss nor the
tracing of the training function counts.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

import kfac
from benchmarks.curves import Curve, record
from benchmarks.keras_fit.networks import NETWORKS
from examples.mnist import Examples

BATCH = 256
MEASURED = 10_000
"""Training examples whose loss is measured."""
HELD_OUT = 2_000
"""Held-out images whose classes are."""


Make = Callable[[Any], Any]
"""A function that returns an optimizer with a learning rate, which may be a schedule."""

OPTIMIZERS: Mapping[str, tuple[Make, Sequence[float]]] = {
    "K-FAC": (
        lambda rate: kfac.keras.Kfac(
            rate, damping=0.01, invert_every=40, cov_update_every=10, early_refresh=True
        ),
        (0.01, 0.02, 0.04),
    ),
    "Adam": (keras.optimizers.Adam, (0.003, 0.01, 0.03)),
    "SGD": (lambda rate: keras.optimizers.SGD(rate, momentum=0.9), (0.1, 0.3, 1.0)),
    "Muon": (keras.optimizers.Muon, (0.003, 0.01, 0.03)),
}
"""Optimizers by name, each with its learning rates."""

OF_IMAGES: Mapping[str, tuple[Make, Sequence[float]]] = {
    "K-FAC": (
        lambda rate: kfac.keras.Kfac(
            rate, damping=0.01, norm_constraint=0.003, invert_every=20, cov_update_every=10
        ),
        (0.01, 0.03, 0.1, 0.3),
    ),
    "Adam": (keras.optimizers.Adam, (0.0003, 0.001, 0.003, 0.01, 0.03)),
    "SGD": (OPTIMIZERS["SGD"][0], (0.01, 0.03, 0.1, 0.3)),
}
"""The same for the networks for images."""


def decaying(rate: float, steps: int) -> Any:
    """Returns a learning rate that falls to zero over a run, along a cosine."""
    return keras.optimizers.schedules.CosineDecay(rate, steps)


def optimizers(network: str) -> Mapping[str, tuple[Make, Sequence[float]]]:
    """Returns the optimizers that race on a network."""
    return OPTIMIZERS if network == "perceptron" else OF_IMAGES


def train(
    network: str,
    optimizer: Any,
    training: Examples,
    steps: int,
    every: int,
    held_out: Examples | None = None,
    seed: int = 0,
) -> Curve:
    """Returns the curve of a run of a Keras 3 optimizer, measured every so many steps.

    Args:
      network: A key of `NETWORKS`.
      optimizer: The optimizer.
      training: Images and labels to train on.
      steps: Steps of the run.
      every: Steps between two measurements.
      held_out: Images whose wrong classes are counted, or None for the training loss.
      seed: Seed of the first weights and of the batches.
    """
    x, y = training
    keras.utils.set_random_seed(seed)
    model = NETWORKS[network](x.shape[1:])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"] if held_out else [])
    order = np.random.default_rng(seed)
    start = model.get_weights()
    # Traces the function before the clock starts. Optimizers keep the state of these two steps.
    _fit(model, x[: 2 * BATCH], y[: 2 * BATCH])
    model.set_weights(start)

    def advance() -> float:
        chosen = order.choice(len(x), every * BATCH)
        batch_x, batch_y = x[chosen], y[chosen]
        started = time.process_time()
        _fit(model, batch_x, batch_y)
        return time.process_time() - started

    return record(lambda: _measure(model, training, held_out), advance, steps, every)


def _measure(model: Any, training: Examples, held_out: Examples | None) -> float:
    """Returns the share of held-out images with a wrong class or, without them, a loss."""
    if held_out is None:
        x, y = (part[:MEASURED] for part in training)
        return float(model.evaluate(x, y, 1000, verbose=0))
    x, y = (part[:HELD_OUT] for part in held_out)
    return 1.0 - float(model.evaluate(x, y, 500, verbose=0, return_dict=True)["accuracy"])


def _fit(model: Any, x: np.ndarray, y: np.ndarray) -> None:
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
