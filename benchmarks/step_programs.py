"""The models and optimizers whose steps `benchmarks.kfac_step` times, and what they cost on paper.

Builds programs and counts floating-point operations; how steps are timed and shown is not its
business.
"""

import collections
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
from benchmarks import models, timing
from benchmarks.executed_operations import executed_operations

v1 = tf.compat.v1

INVERT_EVERY = 10
ENCODER = (784, 1000, 500, 250, 30)
"""Units of the first half of the autoencoder; the second half mirrors it."""


class LayerSize(NamedTuple):
    """What the cost of a layer depends on.

    Attributes:
      inputs: Rows of A, the bias included.
      outputs: Rows of G.
      locations: How often the layer is applied to an example.
      is_first: Whether nothing is propagated back through it.
    """

    inputs: int
    outputs: int
    locations: int = 1
    is_first: bool = False


class Program:
    """A model and an optimizer in a graph and a session of their own."""

    def __init__(
        self, model: str, optimizer: str, batch_size: int, momentum_type: str = "regular"
    ) -> None:
        """Builds and initializes it.

        Args:
          model: One of `MODELS`.
          optimizer: "momentum" or "kfac".
          batch_size: Examples in a batch.
          momentum_type: Of K-FAC.
        """
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(1)
            build = {"convnet": build_convnet, "autoencoder": build_autoencoder}[model]
            loss, layers = build(_random_images(batch_size))
            self._train = _make_optimizer(optimizer, layers, momentum_type).minimize(loss)
            initializer = v1.global_variables_initializer()
        self._session = v1.Session(graph=graph)
        self._session.run(initializer)

    def run(self, steps: int) -> float:
        """Makes some steps; returns the mean number of seconds that one took."""
        return timing.mean_seconds(lambda: self._session.run(self._train), steps)

    def executed_operations(self) -> float:
        """Makes steps until inverses are due again; returns the mean number of operations."""
        steps = [executed_operations(self._traced()) for _ in range(INVERT_EVERY)]
        return sum(steps) / len(steps)

    def _traced(self) -> Any:
        """Makes a step; returns its trace."""
        metadata = v1.RunMetadata()
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        self._session.run(self._train, options=options, run_metadata=metadata)
        return metadata

    def profile(self) -> dict[str, float]:
        """Makes a step; returns the milliseconds of each kind of op, all threads together."""
        metadata = self._traced()
        spent: collections.Counter[str] = collections.Counter()
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                kind = node.timeline_label.rpartition(" = ")[2].partition("(")[0]
                spent[kind or "?"] += (node.op_end_rel_micros - node.op_start_rel_micros) / 1e3
        return dict(spent)


def _random_images(batch_size: int) -> Any:
    """Returns images [batch, 28, 28, 1] in a variable, so that nothing can be computed ahead."""
    shape = [batch_size, 28, 28, 1]
    return v1.get_variable(
        "images", shape, initializer=v1.random_uniform_initializer(), trainable=False
    ).read_value()


def build_convnet(images: Any) -> tuple[Any, kfac.LayerCollection]:
    """Returns the loss and the registered layers of the ConvNet of the examples."""
    layers = kfac.LayerCollection()
    labels = tf.range(images.shape[0]) % 10
    return models.convnet_loss(images, labels, layers), layers


def build_autoencoder(images: Any) -> tuple[Any, kfac.LayerCollection]:
    """Returns the loss and the registered layers of an autoencoder with sigmoids."""
    layers = kfac.LayerCollection()
    loss = models.autoencoder_loss(images, ENCODER, tf.sigmoid, tf.sigmoid, layers)
    return loss, layers


def _make_optimizer(name: str, layers: kfac.LayerCollection, momentum_type: str) -> Any:
    if name == "momentum":
        return v1.train.MomentumOptimizer(1e-3, 0.9)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_EVERY,
        learning_rate=1e-4,
        damping=0.1,
        layer_collection=layers,
        momentum_type=momentum_type,
    )


def layer_sizes(model: str) -> list[LayerSize]:
    """Returns the sizes of the layers of a model."""
    if model == "convnet":
        return [
            LayerSize(5 * 5 * 1 + 1, 16, 28 * 28, is_first=True),
            LayerSize(5 * 5 * 16 + 1, 16, 14 * 14),
            LayerSize(7 * 7 * 16 + 1, 10),
        ]
    units = models.autoencoder_units(ENCODER)
    return [
        LayerSize(inputs + 1, outputs, is_first=index == 0)
        for index, (inputs, outputs) in enumerate(itertools.pairwise(units))
    ]


def operations(sizes: Sequence[LayerSize], batch_size: int) -> dict[str, float]:
    """Counts the floating-point operations of a step, products and sums, by what they are for.

    By the textbook: whole products for symmetric matrices, n³ for an inverse, a pass backward of
    its own for drawn targets, and every gradient multiplied by both inverses.

    Args:
      sizes: Of the layers.
      batch_size: Examples in a batch.
    """
    counts: dict[str, float] = collections.defaultdict(float)
    for m, n, locations, is_first in sizes:
        rows = batch_size * locations
        counts["forward"] += 2 * rows * m * n
        counts["backward"] += 2 * rows * m * n * (1 if is_first else 2)
        counts["second backward"] += 0 if is_first else 2 * rows * m * n
        counts["covariances"] += 2 * rows * (m * m + n * n)
        counts["preconditioning"] += 2 * m * n * (m + n)
        counts["inverses"] += (m**3 + n**3) / INVERT_EVERY
    return dict(counts)


def momentum_operations(counts: dict[str, float]) -> float:
    """Returns those of `operations` that momentum SGD takes: forward and backward."""
    return counts["forward"] + counts["backward"]
