"""Problems of the benchmark: a table or images, a network for it, and the held-out loss to reach.

Only NumPy loads at once; scikit-learn and TensorFlow do when they are needed.
"""

from typing import Any, NamedTuple

import numpy as np

from examples import mnist, tables

FEATURE = "x"
MNIST = "mnist"
BUNDLED = ("wine", "breast_cancer", "digits")
"""Problems whose data scikit-learn bundles."""


class Problem(NamedTuple):
    """A training set, a held-out set, a network and a loss to reach.

    Attributes:
      train: Values, float32 [rows, columns], and labels, int32 [rows].
      held_out: The same of rows that are not trained on.
      classes: Number of classes.
      hidden_units: Units of each hidden layer.
      batch_size: Rows in a step.
      target: Mean held-out loss to reach, in nats.
      steps: Steps after which a run gives up.
      every: Steps between two measurements of the held-out loss.
    """

    train: tables.Rows
    held_out: tables.Rows
    classes: int
    hidden_units: tuple[int, ...]
    batch_size: int
    target: float
    steps: int
    every: int


def load(name: str, data_dir: str | None) -> Problem:
    """Loads a problem: one of `BUNDLED`, or MNIST with the folder of its four IDX files.

    Raises:
      ValueError: The folder is missing, or is not that of MNIST.
    """
    if name == MNIST:
        if not data_dir:
            raise ValueError("--problem=mnist needs --data_dir, the folder of its four IDX files.")
        return _images(data_dir, (128, 64), 256, target=0.12, steps=600, every=10)
    if name == "digits":
        return _images(None, (64, 32), 128, target=0.12, steps=400, every=5)
    target = {"wine": 0.1, "breast_cancer": 0.12}[name]
    return _table(name, (32, 16), 64, target=target, steps=150, every=2)


def input_fn(rows: tables.Rows, batch_size: int, *, training: bool) -> Any:
    """Returns a dataset of ({FEATURE: values [batch, columns]}, labels [batch])."""
    batches = mnist.input_fn(*rows, batch_size, training=training)
    return batches.map(lambda values, labels: ({FEATURE: values}, labels))


def _images(
    data_dir: str | None, hidden_units: tuple[int, ...], batch_size: int, **race: Any
) -> Problem:
    parts = mnist.load(data_dir)
    train, held_out = (
        tables.Rows(part.images.reshape(len(part.labels), -1), part.labels)
        for part in (parts.train, parts.test)
    )
    return Problem(train, held_out, mnist.CLASSES, hidden_units, batch_size, **race)


def _table(name: str, hidden_units: tuple[int, ...], batch_size: int, **race: Any) -> Problem:
    """Returns a table whose columns have mean 0 and variance 1 in the training set."""
    table = tables.load(name)
    mean, scale = table.train.values.mean(axis=0), table.train.values.std(axis=0)
    train, held_out = (
        tables.Rows(((part.values - mean) / scale).astype(np.float32), part.labels)
        for part in (table.train, table.test)
    )
    return Problem(train, held_out, table.classes, hidden_units, batch_size, **race)
