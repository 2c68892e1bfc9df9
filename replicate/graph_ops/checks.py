"""Checks that run inside a step, and their translation into errors that users can read.

A check that needs the data (does this batch divide, is this gradient finite) is an operation of the
graph. TensorFlow reports its failure as "Graph execution error" with a traceback of the graph. The
checks made here mark their message. `user_errors`, which the runtime wraps around every run of a
session, raises that message as a ValueError or NonFiniteError.
"""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.errors import NonFiniteError

v1 = tf.compat.v1


_KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "NonFiniteError": NonFiniteError}
_MARKED = re.compile(r"<<(?P<kind>\w+)\| (?P<text>.*?) \|>>", re.DOTALL)


def batch_check(condition: Tensor, text: str, *values: Tensor) -> Operation:
    """Makes an operation that fails with `ValueError(text)` unless the condition holds.

    Each `{}` in the text is replaced by one of the values: scalars, known when the step runs.
    """
    message = tf.strings.format(f"<<ValueError| {text} |>>", values)
    return v1.debugging.Assert(condition, [message])


def failure_unless(condition: Tensor, text: Tensor) -> Operation:
    """Makes an operation that fails with `NonFiniteError(text)` unless the condition holds."""
    message = tf.strings.join(["<<NonFiniteError| ", text, " |>>"])
    return v1.debugging.Assert(condition, [message])


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Raises the failure of a check of this module as the error that it stands for.

    Raises:
      ValueError: A `batch_check` failed inside the context.
      NonFiniteError: A `failure_unless` failed inside the context.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = _MARKED.search(error.message)
        if found is None:
            raise
        raise _KINDS[found["kind"]](_unescaped(found["text"])) from error


def _unescaped(text: str) -> str:
    """Undoes the C escapes (quotes, octal bytes) with which an assertion prints its message."""
    return text.encode().decode("unicode_escape").encode("latin-1").decode()
