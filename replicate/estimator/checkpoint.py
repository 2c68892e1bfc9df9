"""Checkpoints: which one is the newest, and how to load it or say what is wrong with it.

Owns the search of a model directory and the translation of everything that can go wrong while a
checkpoint is read into `CheckpointError`, which names the file and the way out. It writes nothing
(`saving.py` does) and never decides to start over: a directory that shows signs of an earlier run
but has no checkpoint that can be used is an error.
"""

import re
from typing import Any

import tensorflow as tf
from absl import logging

from replicate._types import Variable

v1 = tf.compat.v1

_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)
_LOST_PEER = (tf.errors.AbortedError, tf.errors.UnavailableError)


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, written, or used for this model. Nothing was overwritten."""


def newest_checkpoint(model_dir: str) -> str | None:
    """Returns the path of the newest checkpoint, None when the directory never had one.

    The state file says which one it is. When that file is missing, damaged, or names files that
    are gone, the checkpoint with the highest step is taken, with a warning.

    Raises:
      CheckpointError: There was a checkpoint once, and none is left that can be used.
    """
    if not tf.io.gfile.isdir(model_dir):
        return None
    listed = listed_checkpoints(model_dir)
    if listed and tf.io.gfile.exists(f"{listed[-1]}.index"):
        return listed[-1]
    whole = indexed_checkpoints(model_dir)
    if whole:
        logging.warning(
            "%s does not name a checkpoint that exists; taking the newest one found, %s.",
            _state_file(model_dir),
            whole[-1],
        )
        return whole[-1]
    if tf.io.gfile.exists(_state_file(model_dir)):
        raise CheckpointError(
            f"Cannot find a checkpoint in {model_dir}: {_state_file(model_dir)} shows that there "
            f"was one ({listed[-1] if listed else 'the file is unreadable'}), but no *.index file "
            "is left. Restore the files from a copy, or use an empty model_dir to start at step 0."
        )
    return None


def listed_checkpoints(model_dir: str) -> list[str]:
    """Returns the checkpoints that the state file lists, oldest first; none if it is unusable."""
    try:
        state = v1.train.get_checkpoint_state(model_dir)
    except (ValueError, tf.errors.OpError):
        return []
    if state is None:
        return []
    newest = state.model_checkpoint_path
    return [*(path for path in state.all_model_checkpoint_paths if path != newest), newest]


def indexed_checkpoints(model_dir: str) -> list[str]:
    """Returns the checkpoints whose index file is in the directory, lowest step first."""
    names = [name for name in tf.io.gfile.listdir(model_dir) if name.endswith(".index")]
    paths = [f"{model_dir.rstrip('/')}/{name.removesuffix('.index')}" for name in names]
    return sorted(paths, key=lambda path: (_step_in_name(path), path))


def open_checkpoint(path: str) -> Any:
    """Returns a reader of the checkpoint, as `tf.compat.v1.train.load_checkpoint` does.

    Raises:
      CheckpointError: There is none, or its index is damaged.
    """
    if not tf.io.gfile.exists(f"{path}.index"):
        raise CheckpointError(
            f"Cannot read checkpoint {path}: {path}.index does not exist. Correct the path, or "
            "leave it out to take the newest checkpoint of model_dir."
        )
    try:
        reader = v1.train.load_checkpoint(path)
        reader.get_variable_to_shape_map()
    except _READ_ERRORS as error:
        raise _damaged(path, f"{path}.index", error) from error
    return reader


def read_variable(path: str, name: str) -> Any:
    """Returns the value of one variable in a checkpoint, as a NumPy array.

    Raises:
      CheckpointError: The checkpoint is damaged, or does not hold the variable.
    """
    reader = open_checkpoint(path)
    if not reader.has_tensor(name):
        raise CheckpointError(
            f"Checkpoint {path} holds no variable {name!r}. It holds: "
            f"{', '.join(sorted(reader.get_variable_to_shape_map()))}."
        )
    try:
        return reader.get_tensor(name)
    except _READ_ERRORS as error:
        raise _damaged(path, _data_files(path), error) from error


def restore_variables(session: v1.Session, saver: v1.train.Saver, path: str) -> None:
    """Loads a checkpoint into the variables of a session.

    Raises:
      CheckpointError: It is damaged, lacks variables of the graph, or has other shapes.
    """
    saved = open_checkpoint(path).get_variable_to_shape_map()
    variables = v1.global_variables()
    _check_shapes(path, variables, saved)
    try:
        saver.restore(session, path)
    except _LOST_PEER:
        raise
    except (tf.errors.OpError, ValueError) as error:
        raise _explained(path, variables, saved, error) from error


def _check_shapes(path: str, variables: list[Variable], saved: dict[str, list[int]]) -> None:
    """Raises when a saved shape differs: loading it would change the variable's shape unasked."""
    different = [
        f"{variable.op.name}: saved {saved[variable.op.name]}, wanted {variable.shape.as_list()}"
        for variable in variables
        if variable.op.name in saved
        and not variable.shape.is_compatible_with(saved[variable.op.name])
    ]
    if different:
        raise CheckpointError(
            f"Cannot load checkpoint {path}: the model has changed, shapes differ for "
            f"{'; '.join(different)}. Build the model that was saved, or use another model_dir."
        )


def _explained(
    path: str, variables: list[Variable], saved: dict[str, list[int]], error: Exception
) -> CheckpointError:
    """The error to raise when a checkpoint with a readable index cannot be loaded."""
    data_files = _data_files(path)
    missing = sorted(variable.op.name for variable in variables if variable.op.name not in saved)
    if missing and data_files and isinstance(error, tf.errors.NotFoundError):
        return CheckpointError(
            f"Cannot load checkpoint {path}: it lacks variables of this model: "
            f"{', '.join(missing)}. It holds: {', '.join(sorted(saved))}. Build the model that was "
            "saved, or use another model_dir."
        )
    return _damaged(path, data_files or f"{path}.data-*, which does not exist", error)


def _damaged(path: str, files: str, error: Exception) -> CheckpointError:
    """The error for a checkpoint whose bytes are wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if re.search("TensorBundle|sstable|Read less bytes", line)]
    cause = told[0] if told else type(error).__name__
    return CheckpointError(
        f"Cannot load checkpoint {path}: damaged file {files} ({cause}). Move {path}.* out of the "
        "directory to continue from the checkpoint before it, or restore the files from a copy. "
        "Nothing was overwritten."
    )


def _data_files(path: str) -> str:
    """The names of a checkpoint's data files that exist, separated by commas."""
    folder, _, name = path.rpartition("/")
    names = tf.io.gfile.listdir(folder or ".")
    prefix = f"{folder}/" if folder else ""
    return ", ".join(sorted(prefix + each for each in names if each.startswith(f"{name}.data-")))


def _step_in_name(path: str) -> int:
    found = re.search(r"-(\d+)$", path)
    return int(found[1]) if found else -1


def _state_file(model_dir: str) -> str:
    return f"{model_dir.rstrip('/')}/checkpoint"
