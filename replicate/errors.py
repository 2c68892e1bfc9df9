"""Errors that are found while a step runs, told as if they had been found before.

A check that needs the data itself (does this batch divide, is this gradient finite) is an operation
of the graph, and TensorFlow reports its failure as "Graph execution error" with a traceback of
the graph. The checks made here carry a marked sentence, and `user_errors`, which the runtime wraps
around every run of a session, raises that sentence as the error the user should see.
"""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1


class NonFiniteError(ArithmeticError, v1.train.NanLossDuringTrainingError):
    """A loss or gradient is NaN or infinite; the step that found it changed no variable.

    It is also the error of TensorFlow's own hook for such losses, which programs catch.

    Attributes:
      code: Exit code of a program that ends by it: 3, since another start would not help.
    """

    code = 3

    def __str__(self) -> str:
        """The message; the base class of TensorFlow would give the same one for every error."""
        return ArithmeticError.__str__(self)


class ArgumentTypeError(TypeError, ValueError):
    """An argument is of the wrong type.

    It is raised where tf.estimator raised a ValueError, so that programs that catch that go on
    working.
    """


_KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "NonFiniteError": NonFiniteError}
_MARKED = re.compile(r"<<(?P<kind>\w+)\| (?P<text>.*?) \|>>", re.DOTALL)


def batch_check(condition: Tensor, text: str, *values: Tensor) -> Operation:
    """Makes an operation that fails with `ValueError(text)` unless the condition holds.

    Args:
      condition: Boolean scalar.
      text: The message; each `{}` in it is replaced by one of `values`.
      values: Scalars, known when the step runs.
    """
    message = tf.strings.format(f"<<ValueError| {text} |>>", values)
    return v1.debugging.Assert(condition, [message])


def failure_unless(condition: Tensor, text: Tensor) -> Operation:
    """Makes an operation that fails with `NonFiniteError(text)` unless the condition holds.

    Args:
      condition: Boolean scalar.
      text: String scalar: the message.
    """
    message = tf.strings.join(["<<NonFiniteError| ", text, " |>>"])
    return v1.debugging.Assert(condition, [message])


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Turns the failure of a check made in this module into the error that it stands for.

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
