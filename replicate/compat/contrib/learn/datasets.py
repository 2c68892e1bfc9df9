"""tf.contrib.learn.datasets: data from files that are there, with those of its module base."""

import csv
import os
from typing import Any, NamedTuple

import numpy as np

from replicate.compat.mnist.input_data import load_mnist


class Dataset(NamedTuple):
    """Features [examples, features] and their targets [examples]."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Three parts of the data: to train on, to validate on, and to test on."""

    train: Any
    validation: Any
    test: Any


DATASETS = {"mnist": load_mnist}
"""Readers by name, as `DATASETS["mnist"](folder)`."""


def load_csv_with_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Reads a CSV file whose first line is "<examples>,<features>,…"."""
    header, *rows = _rows(filename)
    examples, features = int(header[0]), int(header[1])
    found = _dataset(rows[:examples], target_dtype, features_dtype, target_column)
    return Dataset(found.data.reshape(-1, features), found.target)


def load_csv_without_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Reads a CSV file; arguments as for `load_csv_with_header`."""
    return _dataset(_rows(filename), target_dtype, features_dtype, target_column)


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """Returns the path of a file that is there. The URL is for the message.

    Raises:
      FileNotFoundError: The file is not there: nothing is downloaded.
    """
    path = os.path.join(work_directory, filename)
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"There is no {path}: put the file of {source_url} there, nothing is downloaded."
        )
    return path


def _rows(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return [row for row in csv.reader(file) if row]


def _dataset(rows: list[list[str]], target: Any, features: Any, column: int) -> Dataset:
    targets = [row.pop(column) for row in rows]
    return Dataset(np.array(rows, features), np.array(targets, target))
