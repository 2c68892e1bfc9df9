"""Checkpoints: how to load one, or say what is wrong with it.

Owns the translation of everything that can go wrong while a checkpoint is read into
`CheckpointError`, which names the file and the way out. Which checkpoint is read is decided in
`search.py`, what is written in `saving.py`.
"""

import difflib
import functools
import re
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.checkpoint_names import saved_variables
from replicate.estimator.checkpoints.position_file import SUFFIX

v1 = tf.compat.v1

_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)
_DAMAGE_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)
_READ_TOGETHER = 32
"""Variables that are read by one operation when a whole checkpoint is checked."""
_CLOCK_TICK = 1_000_000_000
"""Nanoseconds in which a file may change twice without a new time stamp."""
_LOST_PEER = (tf.errors.AbortedError, tf.errors.UnavailableError)
_MOST_LISTED = 5
"""Variables that an error names."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, written, or used for this model. Nothing was overwritten.

    Attributes:
      code: Exit code of a program that ends by it: 2, since another start would not help.
    """

    code = 2


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

    Args:
      path: Of the checkpoint.
      name: Of the variable, or of its tensor, which ends in ":0".

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
        raise _damaged(path, _data_files(path), error) from error


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
        raise _explained(path, variables, saved, error) from error


def damage_in(path: str) -> str | None:
    """Says what is wrong with the files of a checkpoint; None if every byte of it can be read.

    All of it is read, which compares the checksums. A result is remembered until a file changes.

    Args:
      path: Of a checkpoint.
    """
    if not tf.io.gfile.exists(f"{path}.index"):
        return f"{path}.index does not exist"
    files = [file for file in checkpoint_files(path) if not file.endswith(SUFFIX)]
    stats = [tf.io.gfile.stat(file) for file in files]
    if max(stat.mtime_nsec for stat in stats) > time.time_ns() - _CLOCK_TICK:
        return _found_damage(path)
    return _remembered_damage(path, tuple((stat.length, stat.mtime_nsec) for stat in stats))


def checkpoint_files(path: str) -> list[str]:
    """Returns the files of a checkpoint that exist: first the index, then the data, then others."""
    folder, _, name = path.rpartition("/")
    kept = re.compile(rf"{re.escape(name)}\.(index|data-\d+-of-\d+|meta|input_position)")
    there = tf.io.gfile.listdir(folder or ".") if tf.io.gfile.isdir(folder or ".") else []
    names = [each for each in there if kept.fullmatch(each)]
    prefix = f"{folder}/" if folder else ""
    return [prefix + each for each in sorted(names, key=lambda each: (".index" not in each, each))]


@functools.lru_cache(maxsize=64)
def _remembered_damage(path: str, state_of_files: tuple[tuple[int, int], ...]) -> str | None:
    """The damage found in files that were in this state, which is what makes them the same."""
    del state_of_files
    return _found_damage(path)


def _found_damage(path: str) -> str | None:
    """Reads a whole checkpoint."""
    try:
        types = v1.train.load_checkpoint(path).get_variable_to_dtype_map()
    except _READ_ERRORS as error:
        return _damage(f"{path}.index", error)
    config = v1.ConfigProto(device_count={"CPU": 1, "GPU": 0})
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        try:
            session.run(_reads(path, types))
        except _DAMAGE_ERRORS as error:
            return _damage(_data_files(path) or f"{path}.data-*, which does not exist", error)
    return None


def _reads(path: str, types: dict[str, tf.DType]) -> list[Operation]:
    """Returns operations that read some variables each.

    One for each variable takes long to build, one for all takes as much memory as the file.
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
    """Raises when a saved shape differs: loading it would change the variable's shape unasked."""
    different = [
        f"{name}: saved {saved[name]}, wanted {variable.shape.as_list()}"
        for name, variable in variables.items()
        if name in saved and not variable.shape.is_compatible_with(saved[name])
    ]
    if different:
        raise CheckpointError(
            f"Cannot load checkpoint {path}: the model has changed, shapes differ for "
            f"{len(different)} of its {len(variables)} variables: {_listed(different, '; ')}. "
            f"{_ways_out(path)}"
        )


def _explained(
    path: str, variables: dict[str, Variable], saved: dict[str, list[int]], error: Exception
) -> CheckpointError:
    """The error to raise when a checkpoint with a readable index cannot be loaded."""
    data_files = _data_files(path)
    missing = sorted(set(variables) - set(saved))
    if missing and data_files and isinstance(error, tf.errors.NotFoundError):
        unknown = sorted(set(saved) - set(variables))
        return CheckpointError(
            f"Cannot load checkpoint {path}: it lacks {len(missing)} of the {len(variables)} "
            f"variables of this model: {_listed(missing)}. It holds {len(saved)}, of which this "
            f"model lacks {_listed(unknown) if unknown else 'none'}. {_ways_out(path)}"
        )
    return _damaged(path, data_files or f"{path}.data-*, which does not exist", error)


def _listed(names: Sequence[str], separator: str = ", ") -> str:
    """Returns the first of some names, and the number of the others."""
    more = len(names) - _MOST_LISTED
    return separator.join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _ways_out(path: str) -> str:
    return (
        "Build the model that was saved, or use another model_dir; with warm_start_from="
        f"replicate.WarmStartSettings({path!r}, vars_to_warm_start=…) it begins with the weights "
        "that both have."
    )


def _damaged(path: str, files: str, error: Exception) -> CheckpointError:
    """The error for a checkpoint whose bytes are wrong."""
    return CheckpointError(
        f"Cannot load checkpoint {path}: {_damage(files, error)}. Move {path}.* out of the "
        "directory to continue from the checkpoint before it, or restore the files from a copy. "
        "Nothing was overwritten."
    )


def _damage(files: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = "TensorBundle|sstable|Read less bytes|checksum|decode"
    told = [line for line in lines if re.search(telling, line)]
    return f"damaged file {files} ({told[0] if told else type(error).__name__})"


def _data_files(path: str) -> str:
    """The names of a checkpoint's data files that exist, separated by commas."""
    return ", ".join(file for file in checkpoint_files(path) if ".data-" in file)
