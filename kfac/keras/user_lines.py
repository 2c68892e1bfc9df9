"""Warnings that show the line of the user's program, not one of the libraries under it."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterable
from typing import Any

_LIBRARIES = ("kfac", "keras", "tensorflow", "tf_keras")
_GENERATED = "__autograph_generated_file"


def warn(message: str, frames: Iterable[Any] | None = None) -> None:
    """Warns at the innermost line that is not in a library.

    `frames` have the attributes `filename` and `lineno`, the innermost last, such as the
    `traceback` of an op: the line that made it. None means the frames of the caller.
    """
    found = traceback.extract_stack() if frames is None else frames
    own = [frame for frame in found if not _is_of_library(frame.filename)]
    if own:
        warnings.warn_explicit(message, UserWarning, own[-1].filename, own[-1].lineno or 0)
    else:
        warnings.warn(message, stacklevel=2)


def _is_of_library(filename: str) -> bool:
    folders = [
        os.path.dirname(str(sys.modules[name].__file__))
        for name in _LIBRARIES
        if getattr(sys.modules.get(name), "__file__", None)
    ]
    return _GENERATED in filename or filename.startswith(
        ("<", *(folder + os.sep for folder in folders))
    )
