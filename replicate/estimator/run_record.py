"""Run record: the file run.json in the model directory, which describes the newest training run.

Owns the contents of the file: devices, model table, settings and environment. The chief writes the
file when the graph is complete (`hooks/start.py`), and `python -m replicate.report` reads it.
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.estimator.files import OptionalFiles, write_whole
from replicate.estimator.run_config import RunConfig
from replicate.tower.recorded_plan import recorded_plan
from replicate.variables.table import VariableRow
from replicate.version import DISTRIBUTION
from replicate.version import version as own_version

RUN_FILE = "run.json"

_PACKAGES = (DISTRIBUTION, "tensorflow", "numpy")
_LONGEST_TEXT = 300
_MOST_ITEMS = 100


@dataclasses.dataclass(frozen=True)
class Placement:
    """Devices of a training graph.

    Attributes:
      towers: The device of each tower; empty if model_fn is not replicated.
      variables: The devices that hold trainable variables. "" stands for TensorFlow's choice.
      consolidation: The device that splits the input and merges results; "" without towers.
    """

    towers: tuple[str, ...]
    variables: tuple[str, ...]
    consolidation: str

    def lines(self) -> list[tuple[str, str]]:
        """Returns label and text of each line for a terminal."""
        choice = "TensorFlow's choice"
        count = len(self.towers) or 1
        return [
            ("towers", f"{count}: {' '.join(self.towers) or choice}"),
            ("variables on", " ".join(name or choice for name in self.variables) or "none"),
            ("consolidation", self.consolidation or choice),
        ]


def placement(graph: Any, rows: Sequence[VariableRow]) -> Placement:
    """Returns the devices of a graph."""
    plan = recorded_plan(graph)
    variables = tuple(sorted({row.device for row in rows}))
    if plan is None:
        return Placement((), variables, "")
    return Placement(plan.towers, variables, plan.consolidation)


def run_record(
    placed: Placement, rows: Sequence[VariableRow], config: RunConfig, params: Any
) -> dict[str, Any]:
    """Returns the contents of the file.

    Of params, what is neither text nor number nor made of them is written as its type's name.
    """
    cluster = {job: len(tasks) for job, tasks in config.cluster.jobs.items()}
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "devices": dataclasses.asdict(placed),
        "variables": [row._asdict() for row in rows],
        "params": _plain(params),
        "run_config": _plain({**config.as_dict(), "cluster": cluster}),
        "environment": _environment(),
    }


def write_run_record(model_dir: str, record: Mapping[str, Any]) -> None:
    """Writes the file, which replaces that of the run before.

    Readers see the old file or the new, never a part. If it cannot be written, a warning says so,
    and training continues.
    """
    path = f"{model_dir.rstrip('/')}/{RUN_FILE}"
    staged = f"{path}.tmp{os.getpid()}"
    with OptionalFiles().writing(path):
        write_whole(path, json.dumps(record, indent=1, allow_nan=False) + "\n", staged)


def _environment() -> dict[str, Any]:
    """Returns versions and hardware of this process."""
    return {
        "python": platform.python_version(),
        **{name: version for name in _PACKAGES if (version := _version(name))},
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "gpus": len(tf.config.list_physical_devices("GPU")),
    }


def _version(package: str) -> str | None:
    if package == "tensorflow":  # Its distribution has several names.
        return str(tf.__version__)
    if package == DISTRIBUTION:
        return own_version()
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _plain(value: Any) -> Any:
    """Returns a value that JSON can hold, the same in each run: no addresses of objects."""
    if isinstance(value, Mapping) and len(value) <= _MOST_ITEMS:
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and len(value) <= _MOST_ITEMS:
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = _text(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def _text(value: Any) -> str:
    """Returns a text, a number or a protocol buffer as it is, and else the name of its type."""
    if isinstance(value, str | float):
        return str(value)
    if hasattr(value, "DESCRIPTOR"):  # A protocol buffer, such as a ConfigProto.
        return " ".join(str(value).split())
    return str(getattr(value, "__qualname__", None) or type(value).__name__)
