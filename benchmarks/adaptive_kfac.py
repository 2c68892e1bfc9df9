"""Runs of `kfac.keras.Kfac(adaptive=True)` with nothing chosen, and those that diverge.

python -m benchmarks.adaptive_kfac --data_dir=MNIST --data_dir=FASHION_MNIST
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from benchmarks import harness
from examples.lazy_module import LazyModule

keras = LazyModule("keras")
kfac = LazyModule("kfac")
mnist = LazyModule("examples.mnist")
session_programs = LazyModule("benchmarks.session_programs")
tf = LazyModule("tensorflow")

FLAGS = flags.FLAGS
NETWORKS = ("ConvNet", "perceptron")
DIGITS = "digits"
HEADS = ("data", "network", "batch", "diverged", "highest loss / first", "loss", "Adam", "SGD")
MEASURED = 2000
"""Training examples whose loss is measured."""

OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "K-FAC": lambda: kfac.keras.Kfac(adaptive=True),
    "Adam": lambda: keras.optimizers.Adam(0.001),
    "SGD": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
}
"""Optimizers by name. Those beside K-FAC show which loss is to be expected."""


class Run(NamedTuple):
    """Losses of a run: before the first step, the highest of a batch, and after the last step."""

    first: float
    highest: float
    last: float

    @property
    def diverges(self) -> bool:
        """True if the last loss is not finite, or not below the first."""
        return not self.last < self.first


def network(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """Returns a network with ReLUs and logits of 10 classes.

    Args:
      kind: "ConvNet" for two convolutions of 8 and 16 channels, or "perceptron" for 128 units.
      shape: Shape of an image, [rows, columns, 1].
      seed: Seed of the weights.
    """
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu")]
    if kind == "ConvNet":
        layers = []
        for channels in (8, 16):
            layers += [
                keras.layers.Conv2D(channels, 5, activation="relu", padding="same"),
                keras.layers.MaxPooling2D(),
            ]
        layers.append(keras.layers.Flatten())
    return keras.Sequential([keras.Input(shape), *layers, keras.layers.Dense(10)])


class Case:
    """A network, an optimizer and a batch size; its step is traced once for all seeds."""

    def __init__(
        self, optimizer: str, kind: str, data: tuple[np.ndarray, np.ndarray], batch: int
    ) -> None:
        """Traces the step. The data are images [n, rows, columns, 1] and labels [n]."""
        self._data, self._batch, self._kind = data, batch, kind
        self._model = network(kind, data[0].shape[1:], 0)
        self._optimizer = OPTIMIZERS[optimizer]()
        variables = self._model.trainable_variables
        if optimizer != "K-FAC":
            self._optimizer.build(variables)

        def step(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = session_programs.mean_cross_entropy(
                    self._model(images, training=True), labels
                )
            if optimizer == "K-FAC":
                self._optimizer.minimize(loss, variables, tape)
            else:
                self._optimizer.apply(tape.gradient(loss, variables), variables)
            return loss

        shapes = [batch, *data[0].shape[1:]], [batch]
        specs = map(tf.TensorSpec, shapes, (tf.float32, tf.int32))
        self._step = tf.function(step).get_concrete_function(*specs)
        self._start = [variable.numpy() for variable in self._optimizer.variables]

    def train(self, seed: int, steps: int) -> Run:
        """Trains on random batches from a seed, and returns losses."""
        images, labels = self._data
        self._model.set_weights(network(self._kind, images.shape[1:], seed).get_weights())
        for variable, value in zip(self._optimizer.variables, self._start, strict=True):
            variable.assign(value)
        order = np.random.default_rng(seed)
        measured = order.permutation(len(images))[:MEASURED]
        first, losses = self._measure(measured), []
        for _ in range(steps):
            chosen = order.choice(len(images), self._batch)
            loss = self._step(tf.constant(images[chosen]), tf.constant(labels[chosen], tf.int32))
            losses.append(float(loss))
        return Run(first, float(np.max(losses)), self._measure(measured))

    def _measure(self, rows: np.ndarray) -> float:
        images, labels = self._data
        return float(session_programs.mean_cross_entropy(self._model(images[rows]), labels[rows]))


def row(title: Sequence[object], found: Mapping[str, Sequence[Run]]) -> str:
    """Returns a row of the table: diverged runs of K-FAC, and losses at the end."""
    ours = found["K-FAC"]
    lasts = sorted(run.last for run in ours)
    return harness.markdown_row([
        *title,
        f"{sum(run.diverges for run in ours)} of {len(ours)}",
        f"{max(run.highest / run.first for run in ours):.2f}",
        f"{lasts[0]:.3f} to {lasts[-1]:.3f}",
        *(f"{found[name][0].last:.3f}" for name in ("Adam", "SGD")),
    ])  # fmt: skip


def main(_: Sequence[str]) -> None:
    """Runs the benchmark and prints its table as it grows."""
    print("\n".join(harness.table(HEADS, [])), flush=True)
    record = {}
    given = (DIGITS, *FLAGS.data_dir), FLAGS.network, map(int, FLAGS.batch_sizes)
    for data, network, batch in itertools.product(*given):
        examples = mnist.load(None if data == DIGITS else data).train[:2]
        found = {}
        for name in OPTIMIZERS:
            case = Case(name, network, examples, batch)
            seeds = FLAGS.seeds if name == "K-FAC" else 1
            found[name] = [case.train(seed, FLAGS.steps) for seed in range(seeds)]
        title = pathlib.Path(data).name, network, batch
        print(row(title, found), flush=True)
        record[" ".join(map(str, title))] = found
    harness.save(record)


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_multi_string("data_dir", [], "Folder of four IDX files, besides the digits.")
    flags.DEFINE_list("batch_sizes", ["64", "128", "256", "512", "1024"], "Examples of a step.")
    flags.DEFINE_multi_enum("network", NETWORKS, NETWORKS, "Networks to train.")
    flags.DEFINE_integer("seeds", 5, "Runs of each case.", lower_bound=1)
    flags.DEFINE_integer("steps", 40, "Steps of each run.", lower_bound=1)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
