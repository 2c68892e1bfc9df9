"""Chain of square layers that all processes of the scaling benchmarks train, and its sizes.

The batch size sets the computation, the width the bytes, and the number of layers the number of
variables. Computation uses one thread, so a process uses one core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from examples.lazy_module import LazyModule

kfac = LazyModule("kfac")
tf = LazyModule("tensorflow")

RATE = 1e-6
KFAC_MODES = ("shared", "chief_worker", "dedicated_workers")
"""K-FAC on a cluster: the strategies of `kfac.WorkerRole`."""
ROUNDS: dict[str, dict[str, Any]] = {
    "rounds": {},
    "rounds_4_bits": {"bits": 4},
    "rounds_beside": {"delay": 8},
    "rounds_in_fragments": {"fragments": 2, "delay": 4},
}
"""All-reduce in rounds: settings beside the default ones."""
INTERVAL = 10
"""Steps between two averagings or rounds, or between two inverses of K-FAC, and in a block."""


class Shape(NamedTuple):
    """Size of the model, square layers of a width, and of the batch of each worker."""

    layers: int
    width: int
    batch: int

    def __str__(self) -> str:
        return f"{self.layers} × {self.width}², {self.batch}"


SHAPES = (Shape(4, 256, 512), Shape(4, 512, 16), Shape(24, 32, 64))
"""Dominated by computation, by bytes, and by the number of requests."""


def batch_of(shape: Shape) -> np.ndarray:
    """Returns the batch of one worker, [batch, width]."""
    return np.random.default_rng(0).standard_normal([shape.batch, shape.width], "float32")


def initial_weights(shape: Shape) -> list[np.ndarray]:
    """Returns the first weight of each layer, [width, width]."""
    random = np.random.default_rng(1)
    size = [shape.width, shape.width]
    return [random.standard_normal(size, "float32") / shape.width**0.5 for _ in range(shape.layers)]


def loss_of(features: Any, shape: Shape, layers: kfac.LayerCollection | None = None) -> Any:
    """Returns the loss of the chain of layers, shape [], in the default graph.

    Registers the layers and the loss for K-FAC if a collection is given.
    """
    activations = outputs = features
    for index, initial in enumerate(initial_weights(shape)):
        weight = tf.compat.v1.get_variable(f"weight_{index}", initializer=initial)
        outputs = tf.matmul(activations, weight)
        if layers is not None:
            layers.register_fully_connected(weight, activations, outputs)
        activations = tf.tanh(outputs)
    if layers is not None:
        layers.register_normal_predictive_distribution(outputs)
    return tf.reduce_mean(tf.reduce_sum(tf.square(outputs), axis=1))
