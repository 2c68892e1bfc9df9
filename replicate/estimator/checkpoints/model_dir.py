"""Preparation of the model directory: creation, write test, and removal of incomplete files.

Owns the checks before any work is done, and the removal of half-written and half-deleted files of
killed runs. It never changes a complete checkpoint. `estimator.py` prepares the directory before it
trains.
"""

import contextlib
import pathlib
import re
import uuid

import tensorflow as tf

from replicate.estimator.checkpoints.fallback import listed_checkpoints
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.log import log

CHECKPOINT_NAME = "model.ckpt"
"""File name of every checkpoint, before its step."""

_FILES = ("checkpoint", "checkpoint.saving", "graph.pbtxt", "training_ended")
"""Names of files that a run writes or removes."""

_HALF_WRITTEN = re.compile(
    rf"{re.escape(CHECKPOINT_NAME)}-\d+(_temp|\..*\.tempstate\d+).*"
    r"|(checkpoint|graph\.pbtxt|run\.json|time\.json)\.tmp.*"
)
_BESIDE_AN_INDEX = re.compile(
    rf"({re.escape(CHECKPOINT_NAME)}-\d+)\.(data-\d+-of-\d+|meta|input_position)"
)


def prepare_model_dir(model_dir: str) -> None:
    """Makes the directory if it is absent, and checks that files can be written in it.

    Raises:
      ValueError: The path is a file, nothing can be written there, or a directory has the name of a
        file that training writes.
    """
    gfile = tf.io.gfile
    if gfile.exists(model_dir) and not gfile.isdir(model_dir):
        raise ValueError(
            f"Cannot train in model_dir {model_dir!r}: it is a file, and must be a directory. "
            "Give another path or move the file away."
        )
    trial = f"{model_dir}/.write_test_{uuid.uuid4().hex}"
    try:
        gfile.makedirs(model_dir)
        with gfile.GFile(trial, "w") as file:
            file.write("")
        gfile.remove(trial)
    except tf.errors.OpError as error:
        raise ValueError(
            f"Cannot train in model_dir {model_dir!r}: no file can be written there "
            f"({error.message}). Give a directory that this user may write to."
        ) from error
    for name in _FILES:
        if gfile.isdir(f"{model_dir}/{name}"):
            raise ValueError(
                f"Cannot train in model_dir {model_dir!r}: {name} in it is a directory, and must "
                "be a file. Move it away."
            )


def remove_remains(directory: FencedModelDir) -> list[str]:
    """Removes half-written and half-deleted files of killed runs; returns their names.

    These are temporary files of a save, and data and input positions of checkpoints that have no
    index and are not in the state file. Symbolic links are not followed. Directories that are not
    on a local file system are left unchanged.

    Raises:
      ModelDirInUseError: Another process took over.
    """
    folder = pathlib.Path(directory.model_dir)
    if not folder.is_dir():
        return []
    half_written = (path for path in folder.iterdir() if _HALF_WRITTEN.fullmatch(path.name))
    found = sorted([*half_written, *_half_deleted(folder)])
    for path in found:
        directory.remove(str(path))
    removed = [path.name for path in found]
    if removed:
        log.info("Removed what a killed run left in %s: %s", directory.model_dir, removed)
    return removed


def remove_failed_save(checkpoint: str, directory: FencedModelDir) -> None:
    """Removes the files of a checkpoint that could not be written, as far as the disk lets it.

    A checkpoint in the state file is complete and stays.

    Raises:
      ModelDirInUseError: Another process took over.
    """
    folder, _, name = checkpoint.rpartition("/")
    is_listed = checkpoint in listed_checkpoints(folder)
    own_file = r"checkpoint\.tmp.*" if is_listed else rf"checkpoint\.tmp.*|{re.escape(name)}\..*"
    with contextlib.suppress(tf.errors.OpError):
        for each in (each.rstrip("/") for each in tf.io.gfile.listdir(folder)):
            path = f"{folder}/{each}"
            is_folder = tf.io.gfile.isdir(path)
            with contextlib.suppress(tf.errors.OpError):
                if each.startswith(f"{name}_temp") or (
                    re.fullmatch(own_file, each) and not is_folder
                ):
                    directory.remove(path)


def _half_deleted(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns files of half-deleted checkpoints; none if the state file is unusable."""
    listed = {pathlib.Path(path).name for path in listed_checkpoints(str(folder))}
    if not listed:
        return []
    found = [(path, _BESIDE_AN_INDEX.fullmatch(path.name)) for path in folder.iterdir()]
    return [
        path
        for path, match in found
        if match and match[1] not in listed and not (folder / f"{match[1]}.index").exists()
    ]
