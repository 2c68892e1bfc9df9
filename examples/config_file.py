"""What a run was asked to do, as JSON in its model directory: flags, and what became of them.

`config.json` is that of the newest run. Where a run does something else than the one before it,
what was there is kept as `config-<step>.json`, after the step that had been reached with it. Files
are written at once, so that none is ever half there. Every program that trains calls `record`, in
the process that writes the checkpoints: through `training.py`, `plain_training.py`, or by itself.
"""

import dataclasses
import json
import os
import sys
from typing import Any

import tensorflow as tf
from absl import flags

import replicate
from examples import cli

CONFIG_FILE = "config.json"


def record(model_dir: str, step: int, **settings: Any) -> None:
    """Writes the flags of this program, and what else there is to know of how it runs.

    Args:
      model_dir: Where checkpoints go, made when absent; of any file system that TensorFlow knows.
      step: The one from which training goes on; 0 if nothing was saved yet.
      **settings: What else there is, by name: params of a model, a RunConfig. Dataclasses become
        their fields; of a cluster, only the number of tasks in each job counts.

    Raises:
      ValueError: Nothing can be written to the directory.
    """
    found = {"program": cli.program(), "flags": _flags(), **settings}
    text = json.dumps(found, indent=2, default=_as_json) + "\n"
    folder = model_dir.rstrip("/")
    path, kept = f"{folder}/{CONFIG_FILE}", f"{folder}/config-{step}.json"
    try:
        tf.io.gfile.makedirs(model_dir)
        earlier = _read(path) if tf.io.gfile.exists(path) else text
        # If there is one of this step already, that of no step took its place in the meantime.
        if earlier != text and step > 0 and not tf.io.gfile.exists(kept):
            _write_at_once(kept, earlier)
        _write_at_once(path, text)
    except tf.errors.OpError as error:
        raise ValueError(
            f"The configuration of this run cannot be written to {path}: {error.message}. Take a "
            "directory that this user may write to."
        ) from error


def _read(path: str) -> str:
    with tf.io.gfile.GFile(path) as file:
        return str(file.read())


def _write_at_once(path: str, text: str) -> None:
    """Whoever reads the file meanwhile sees all of the old or all of the new."""
    staged = f"{path}.{os.getpid()}"
    with tf.io.gfile.GFile(staged, "w") as file:
        file.write(text)
    tf.io.gfile.rename(staged, path, overwrite=True)


def _flags() -> dict[str, Any]:
    """Returns the values of the flags that `--help` of this program lists, given or not."""
    known = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    return {flag.name: flag.value for flag in sorted(known, key=lambda flag: flag.name)}


def _as_json(value: Any) -> Any:
    """Returns what stands for a value that JSON has not: the same in each run, so no addresses."""
    if isinstance(value, replicate.RunConfig):
        jobs = {job: len(tasks) for job, tasks in value.cluster.jobs.items()}
        return {**value.as_dict(), "cluster": jobs}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return getattr(value, "__qualname__", str(value))
