"""Metric lines: the measurements of a run as JSON, one object per line.

Owns the file `metrics.jsonl` in the model directory, for training, and in the directory of each
evaluation. Lines are only added, with one write each. A line that a killed process left incomplete
is ended before the next line. Steps that are made again after a restart are written again; the
later line counts. `events.py` and `evaluating.py` write the lines.
"""

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.estimator.files import OptionalFiles
from replicate.links import leads_out

METRICS_FILE = "metrics.jsonl"

_NOT_REAL = "SUOcmM"
"""Kinds of NumPy types: texts, objects, complex numbers, times."""


def append_metrics(
    folder: str, step: int, values: Mapping[str, Any], optional: OptionalFiles | None = None
) -> None:
    """Adds a line with the step, the time in seconds since 1970, and some values.

    If the line cannot be written, a warning says so, and the run goes on. A file that is a link out
    of the directory is not written to.

    Args:
      folder: An existing directory.
      step: Global step of the values.
      values: Values by name. Numbers and texts are written; NaN and infinity, which JSON does not
        have, become null. Other values, such as arrays and bytes, are left out.
      optional: Gives the warning; None for a new one, which warns of this line in any case.
    """
    plain = {name: _plain(value) for name, value in values.items() if _is_plain(value)}
    line = json.dumps({"step": int(step), "time": round(time.time(), 3), **plain}, allow_nan=False)
    path = f"{folder.rstrip('/')}/{METRICS_FILE}"
    optional = optional or OptionalFiles()
    if leads_out(path, folder):
        optional.warn(path, "it is a link to a file outside of its directory")
        return
    with optional.writing(path):
        start = "" if _is_complete(path) else "\n"
        with tf.io.gfile.GFile(path, "a") as file:
            file.write(f"{start}{line}\n")


def _is_complete(path: str) -> bool:
    """Returns True if a file is absent, empty, or ends with a complete line."""
    length = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else 0
    if length == 0:
        return True
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(length - 1)
        return bool(file.read(1) == b"\n")


def _is_plain(value: Any) -> bool:
    """Returns True if a value is a text or a single real number."""
    if isinstance(value, str):
        return True
    if not isinstance(value, (int, float, np.generic, np.ndarray)):
        return False
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind not in _NOT_REAL


def _plain(value: Any) -> Any:
    """Returns a text or a Python number; None if the number is not finite."""
    if isinstance(value, str):
        return value
    number = np.asarray(value).item()
    return number if math.isfinite(number) else None
