"""Reading of checkpoints, with errors that name the fault.

Owns the translation of every failure to read a checkpoint into a `CheckpointError`, which names the
file and the remedy. `fallback.py` chooses the checkpoint, `hooks/saving.py` writes it.
"""

import difflib
import functools
import re
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.position_file import SUFFIX
from replicate.saved.checkpoint_names import saved_variables

v1 = tf.compat.v1

_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)
_DAMAGE_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.FailedPreconditionError,  # A directory is in the place of a file.
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)
_READ_TOGETHER = 32
"""Variables that one operation reads during a check of a whole checkpoint."""
_CLOCK_TICK = 1_000_000_000
"""Nanoseconds within which a file may change twice without a new time stamp."""
_LOST_PEER = (tf.errors.AbortedError, tf.errors.UnavailableError)
_MOST_LISTED = 5
"""Number of variables that an error names."""


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
        raise _damage_error(path, f"{path}.index", error) from error
    return reader


def read_variable(path: str, name: str) -> Any:
    """Returns the value of one variable, with or without ":0", in a checkpoint as a NumPy array.

    Raises:
      CheckpointError: The checkpoint is damaged, or does not hold the variable.
    """
    reader = open_checkpoint(path)
    name = name.removesuffix(":0")
    if not reader.has_tensor(name):
        held = sorted(reader.get_variable_to_shape_map())
        alike = difflib.get_close_matches(name, held, _MOST_LISTED, cutoff=0.0)
        raise CheckpointError(
            f"Cannot read variable {name!r} of checkpoint {path}: it holds {len(held)} others, "
            f"most like it {', '.join(alike)}. Take a name from "
            f"tf.compat.v1.train.list_variables({path!r})."
        )
    try:
        return reader.get_tensor(name)
    except _READ_ERRORS as error:
        raise _damage_error(path, _data_files(path), error) from error


def restore_variables(session: v1.Session, saver: v1.train.Saver, path: str) -> None:
    """Loads a checkpoint into the variables of a session.

    Raises:
      CheckpointError: It is damaged, lacks variables of the graph, or has other shapes.
    """
    saved: dict[str, list[int]] = open_checkpoint(path).get_variable_to_shape_map()
    variables = saved_variables()
    _check_shapes(path, variables, saved)
    try:
        saver.restore(session, path)
    except _LOST_PEER:
        raise
    except (tf.errors.OpError, ValueError) as error:
        raise _load_error(path, variables, saved, error) from error


def damage_in(path: str) -> str | None:
    """Describes the damage of a checkpoint; returns None if every byte of it can be read.

    The whole checkpoint is read, which compares the checksums. The result is cached until a file
    changes.

    Raises:
      CheckpointError: The file system cannot say what one of its files is.
    """
    if not tf.io.gfile.exists(f"{path}.index"):
        return f"{path}.index does not exist"
    files = [file for file in checkpoint_files(path) if not file.endswith(SUFFIX)]
    try:
        stats = [tf.io.gfile.stat(file) for file in files]
    except tf.errors.NotFoundError as error:
        return f"a link leads nowhere ({error.message})"
    except tf.errors.UnknownError as error:
        raise _damage_error(path, ", ".join(files), error) from error
    if max(stat.mtime_nsec for stat in stats) > time.time_ns() - _CLOCK_TICK:
        return _read_damage(path)
    return _cached_damage(path, tuple((stat.length, stat.mtime_nsec) for stat in stats))


def checkpoint_files(path: str) -> list[str]:
    """Returns the existing files of a checkpoint: first the index, then data and other files."""
    folder, _, name = path.rpartition("/")
    kept = re.compile(rf"{re.escape(name)}\.(index|data-\d+-of-\d+|meta|input_position)")
    there = tf.io.gfile.listdir(folder or ".") if tf.io.gfile.isdir(folder or ".") else []
    names = [each for each in there if kept.fullmatch(each)]
    prefix = f"{folder}/" if folder else ""
    return [prefix + each for each in sorted(names, key=lambda each: (".index" not in each, each))]


@functools.lru_cache(maxsize=64)
def _cached_damage(path: str, state_of_files: tuple[tuple[int, int], ...]) -> str | None:
    """Returns the damage in a checkpoint, cached by size and time of its files."""
    del state_of_files
    return _read_damage(path)


def _read_damage(path: str) -> str | None:
    """Reads a whole checkpoint and returns its damage, None if there is none."""
    try:
        types = v1.train.load_checkpoint(path).get_variable_to_dtype_map()
    except _READ_ERRORS as error:
        return _describe_damage(f"{path}.index", error)
    config = v1.ConfigProto(device_count={"CPU": 1, "GPU": 0})
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        try:
            session.run(_reads(path, types))
        except _DAMAGE_ERRORS as error:
            files = _data_files(path) or f"{path}.data-*, which does not exist"
            return _describe_damage(files, error)
    return None


def _reads(path: str, types: dict[str, tf.DType]) -> list[Operation]:
    """Returns operations that read some variables each.

    One operation per variable takes long to build; one for all takes as much memory as the file.
    """
    names = sorted(types)
    groups = [
        names[start : start + _READ_TOGETHER] for start in range(0, len(names), _READ_TOGETHER)
    ]
    return [
        tf.raw_ops.RestoreV2(
            prefix=path,
            tensor_names=group,
            shape_and_slices=[""] * len(group),
            dtypes=[types[name] for name in group],
        )[0].op
        for group in groups
    ]


def _check_shapes(path: str, variables: dict[str, Variable], saved: dict[str, list[int]]) -> None:
    """Raises CheckpointError if a saved shape differs: a load would change the variable's shape."""
    different = [
        f"{name}: saved {saved[name]}, wanted {variable.shape.as_list()}"
        for name, variable in variables.items()
        if name in saved and not variable.shape.is_compatible_with(saved[name])
    ]
    if different:
        raise CheckpointError(
            f"Cannot load checkpoint {path}: the model has changed, shapes differ for "
            f"{len(different)} of its {len(variables)} variables: {_listed(different, '; ')}. "
            f"{_advice(path)}"
        )


def _load_error(
    path: str, variables: dict[str, Variable], saved: dict[str, list[int]], error: Exception
) -> CheckpointError:
    """Returns the error for a checkpoint that has a readable index and cannot be loaded."""
    data_files = _data_files(path)
    missing = sorted(set(variables) - set(saved))
    if missing and data_files and isinstance(error, tf.errors.NotFoundError):
        unknown = sorted(set(saved) - set(variables))
        return CheckpointError(
            f"Cannot load checkpoint {path}: it lacks {len(missing)} of the {len(variables)} "
            f"variables of this model: {_listed(missing)}. It holds {len(saved)}, of which this "
            f"model lacks {_listed(unknown) if unknown else 'none'}. {_advice(path)}"
        )
    return _damage_error(path, data_files or f"{path}.data-*, which does not exist", error)


def _listed(names: Sequence[str], separator: str = ", ") -> str:
    """Returns the first of some names, and the number of the others."""
    more = len(names) - _MOST_LISTED
    return separator.join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _advice(path: str) -> str:
    return (
        "Build the model that was saved, or use another model_dir; with warm_start_from="
        f"replicate.WarmStartSettings({path!r}, vars_to_warm_start=…) it begins with the weights "
        "that both have."
    )


def _damage_error(path: str, files: str, error: Exception) -> CheckpointError:
    """Returns the error for a damaged checkpoint."""
    return CheckpointError(
        f"Cannot load checkpoint {path}: {_describe_damage(files, error)}. Move {path}.* out of "
        "the directory to continue from the checkpoint before it, or restore the files from a "
        "copy. Nothing was overwritten."
    )


def _describe_damage(files: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = "TensorBundle|sstable|Read less bytes|checksum|decode|Is a directory|symbolic links"
    told = [line for line in lines if re.search(telling, line)]
    return f"damaged file {files} ({told[0] if told else type(error).__name__})"


def _data_files(path: str) -> str:
    """Returns the existing data files of a checkpoint, separated by commas."""
    return ", ".join(file for file in checkpoint_files(path) if ".data-" in file)
