"""Tables that scikit-learn bundles, their feature columns, and an accuracy to compare with.

`load()` returns a table, split into a training set and a test set. `input_fn` makes a pipeline of
it, with a feature for each column. `numeric_columns` and `bucketized_column` make feature columns;
what they need to know of the data comes from the training set. Nothing here knows about models.

Only NumPy loads at once; scikit-learn and TensorFlow do when they are needed.
"""

from typing import Any, NamedTuple

import numpy as np

from examples import mnist

NAMES = ("breast_cancer", "wine")
_TEST_SHARE = 0.4
_SPLIT_SEED = 0


class Rows(NamedTuple):
    """Values, float32 [rows, columns]; labels, int32 [rows]."""

    values: np.ndarray
    labels: np.ndarray


class Table(NamedTuple):
    """Training set and test set of a table.

    Attributes:
      name: Name to print.
      columns: Name of each column, which is also the key of its feature.
      classes: Number of classes.
      train: Training set.
      test: Test set.
    """

    name: str
    columns: tuple[str, ...]
    classes: int
    train: Rows
    test: Rows


def load(name: str) -> Table:
    """Loads one of scikit-learn's tables, with two fifths of its rows as the test set.

    The split has a fixed seed and is stratified by class.
    """
    from sklearn import datasets  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    found = getattr(datasets, f"load_{name}")()
    train, test = train_test_split(
        np.arange(len(found.target)),
        test_size=_TEST_SHARE,
        random_state=_SPLIT_SEED,
        stratify=found.target,
    )
    values, labels = found.data.astype(np.float32), found.target.astype(np.int32)
    keys = tuple(str(key).replace(" ", "_").replace("/", "_") for key in found.feature_names)
    return Table(
        f"{name.replace('_', ' ')} (scikit-learn)",
        keys,
        len(found.target_names),
        Rows(values[train], labels[train]),
        Rows(values[test], labels[test]),
    )


def input_fn(table: Table, rows: Rows, batch_size: int, *, training: bool, seed: int = 0) -> Any:
    """Makes the tf.data pipeline of one training or evaluation run, in the default graph.

    Args:
      table: The table.
      rows: Its training set or test set.
      batch_size: Rows in a batch, over all towers together.
      training: True: for ever, shuffled anew in each epoch. False: everything once, in order.
      seed: Of the shuffling.

    Returns:
      A tf.data.Dataset of ({column: values [batch]}, labels [batch]).
    """
    batches = mnist.input_fn(*rows, batch_size, training=training, seed=seed)
    return batches.map(
        lambda values, labels: (
            {key: values[:, i] for i, key in enumerate(table.columns)},
            labels,
        )
    )


def numeric_columns(table: Table) -> list[Any]:
    """Returns a numeric feature column for each column, with mean 0 and variance 1 in training."""
    import tensorflow as tf  # noqa: PLC0415

    mean, scale = _mean_and_scale(table)
    return [
        tf.feature_column.numeric_column(
            key, normalizer_fn=lambda x, mean=mean, scale=scale: (x - mean) / scale
        )
        for key, mean, scale in zip(table.columns, mean, scale, strict=True)
    ]


def bucketized_column(table: Table, key: str, buckets: int) -> Any:
    """Returns a feature column of the buckets of one column.

    Each bucket has about as many rows of the training set.
    """
    import tensorflow as tf  # noqa: PLC0415

    values = table.train.values[:, table.columns.index(key)]
    edges = np.quantile(values, np.arange(1, buckets) / buckets)
    return tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column(key), np.unique(edges).tolist()
    )


def logistic_regression_accuracy(table: Table) -> float:
    """Returns the accuracy of scikit-learn's LogisticRegression on the test set.

    It is trained on the standardised columns, with its default penalty.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    mean, scale = _mean_and_scale(table)
    model = LogisticRegression(max_iter=1000)
    model.fit((table.train.values - mean) / scale, table.train.labels)
    return float(model.score((table.test.values - mean) / scale, table.test.labels))


def _mean_and_scale(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and standard deviation of each column of the training set."""
    return table.train.values.mean(axis=0), table.train.values.std(axis=0)
