"""Errors of disks: one wording for errors of Python and of TensorFlow.

Python reports a fault of a file as OSError. TensorFlow chooses the class of its error by the
number of the fault: a file that is too large becomes an OutOfRangeError, which a session takes for
the end of the input. `disk_reason` recognises both kinds, `disk_errors` translates them.
"""

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import tensorflow as tf

from replicate.errors import CheckpointError

_FAULTS = (
    "EACCES",
    "EBUSY",
    "EDQUOT",
    "EEXIST",
    "EFBIG",
    "EIO",
    "EISDIR",
    "ELOOP",
    "EMFILE",
    "ENAMETOOLONG",
    "ENFILE",
    "ENODEV",
    "ENOENT",
    "ENOSPC",
    "ENOTCONN",
    "ENOTDIR",
    "ENOTEMPTY",
    "ENXIO",
    "EPERM",
    "EROFS",
    "ESTALE",
    "ETIMEDOUT",
    "ETXTBSY",
    "EXDEV",
)
"""Names of the faults that an operation on a file may have, as far as the system knows them."""

_TEXTS = sorted({os.strerror(getattr(errno, name)) for name in _FAULTS if hasattr(errno, name)})
_REPORT = re.compile(
    rf"(?P<file>[^\n]*?)(; | is )(?P<text>not a directory|{'|'.join(map(re.escape, _TEXTS))})"
    r"\s*($|[\n\[])"
)
"""A line of TensorFlow's message about a file: its path, and the system's text of the fault."""


def disk_reason(error: BaseException) -> str | None:
    """Returns file and fault if an error is one of the disk, and None for other errors.

    Args:
      error: Any error. For a ValueError that was raised while another error was handled, that one
        counts: savers of TensorFlow report a missing directory so.
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, tf.errors.OpError):
        found = _REPORT.search(error.message)
        return None if found is None else f"{found['file'].strip()}: {found['text']}"
    if isinstance(error, ValueError) and error.__context__ is not None:
        return disk_reason(error.__context__)
    return None


@contextlib.contextmanager
def disk_errors(task: str, advice: str = "") -> Iterator[None]:
    """Raises an error of the disk inside the context as one line: task, fault and advice.

    The task is such as "Cannot save model.ckpt-7". The advice says what is left and what to do.

    Raises:
      CheckpointError: The disk had a fault inside the context.
    """
    try:
        yield
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = disk_reason(error)
        if reason is None:
            raise
        raise CheckpointError(f"{task}: {reason}. {advice}".strip()) from error
