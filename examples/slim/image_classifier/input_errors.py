"""Errors of the input pipeline: damaged records and images, and labels out of range.

The records of a dataset are read while a step runs, so TensorFlow reports their damage as the
failure of that step. The programs answer with one line, as for any file that cannot be used.
"""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from examples.slim.datasets.dataset import ImageDataset
from examples.slim.image_classifier.data_flags import FlagError

_OF_PIPELINE = re.compile(r"IteratorGetNext|with iterator: Iterator::|Could not parse example")
"""Parts of the messages of the operations that give a step its batch."""


@contextlib.contextmanager
def input_errors(dataset: ImageDataset) -> Iterator[None]:
    """Raises the error of a step as a FlagError if the input pipeline of the step failed."""
    try:
        yield
    except (tf.errors.OpError, ValueError) as error:
        message = _failure_of_step(error)
        if not _OF_PIPELINE.search(message):
            raise
        told = str(error) if isinstance(error.__cause__, tf.errors.OpError) else _cause(message)
        raise FlagError(
            f"Cannot read the {dataset.split_name} images of {dataset.name}: {told}"
        ) from error


def _failure_of_step(error: Exception) -> str:
    """Returns the message of the failed operation that an error stands for, "" if there is none.

    If a message quotes a record, its bytes may be no text, and TensorFlow raises the error of their
    decoding.
    """
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="replace")
    failure = error.__cause__ if isinstance(error, ValueError) else error
    return str(failure.message) if isinstance(failure, tf.errors.OpError) else ""


def _cause(message: str) -> str:
    """Returns the line of a message of TensorFlow that tells the cause.

    Names of nodes and the bytes of a record are left out.
    """
    told = message.partition("[[")[0].partition(", value: '")[0].strip()
    line = told.rpartition("\n")[2] or message
    return re.sub(r"\{\{.*?\}\}|^\s*\(\d+\) |^.*Iterator::[\w:\[\]]*: ", "", line).strip()
