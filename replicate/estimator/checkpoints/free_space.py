"""Free space: the bytes that a checkpoint needs, compared with those that a disk has.

Owns the check before a save. It prevents a save that would fill the disk and then fail. The check
knows only the disks of this machine: other file systems and quotas report their faults themselves.
"""

import math
import os
from typing import Any

import tensorflow as tf

from replicate._types import Graph, Operation
from replicate.errors import SaveError
from replicate.estimator.checkpoints.reading import checkpoint_files

v1 = tf.compat.v1

SMALL_FILES_BYTES = 16 << 10
"""Room for the state file, the note of the save, and an index, each a block or more."""

_BLOCK = 4096
"""Usual size of a block of a disk: a file takes whole blocks."""

_TENSORS_OF_SAVE = 3
"""Index of the first tensor among the inputs of a SaveV2 operation."""


def check_free_space(
    checkpoint: str, graph: Graph, saver: v1.train.Saver, previous: str | None
) -> None:
    """Raises SaveError if the disk has too little room for a checkpoint. Writes nothing.

    Args:
      checkpoint: Path of the checkpoint to write.
      graph: Graph of the saver.
      saver: Saver that will write it.
      previous: Path of the checkpoint before it, which tells the size of the files; None if there
        is none. Without one, the size is that of the tensors.

    Raises:
      SaveError: There is too little room.
    """
    folder = checkpoint.rpartition("/")[0]
    free = free_bytes(folder)
    if free is None:
        return
    needed = 0 if previous is None else _size_of_files(previous)
    needed = SMALL_FILES_BYTES + (needed or saved_bytes(graph, saver))
    if free < needed:
        raise SaveError(
            f"Cannot save {checkpoint}: it needs {needed:,} bytes, and {folder} has {free:,} bytes "
            "free. Nothing was written, and the checkpoints before it are whole.",
            "Make room and start again to continue from the newest one.",
        )


def free_bytes(folder: str) -> int | None:
    """Returns the free space of a directory for this user; None if it is unknown, as in "gs://"."""
    if "://" in folder or not hasattr(os, "statvfs"):
        return None
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if not disk.f_blocks:  # Of a file system that does not count its blocks.
        return None
    return disk.f_frsize * (disk.f_bavail if os.geteuid() else disk.f_bfree)


def saved_bytes(graph: Graph, saver: v1.train.Saver) -> int:
    """Returns the bytes of the tensors that a saver writes, without those of unknown size."""
    definition = saver.as_saver_def()
    if definition is None:  # Of a saver without variables.
        return 0
    tensors = [
        tensor
        for operation in _save_operations(graph.get_tensor_by_name(definition.save_tensor_name).op)
        for tensor in operation.inputs[_TENSORS_OF_SAVE:]
    ]
    return sum(map(_tensor_bytes, tensors))


def _save_operations(last: Operation) -> list[Operation]:
    """Returns the SaveV2 operations that an operation waits for."""
    found, waiting, seen = [], [last], {last}
    while waiting:
        operation = waiting.pop()
        if operation.type == "SaveV2":
            found.append(operation)
            continue
        before = {tensor.op for tensor in operation.inputs} | set(operation.control_inputs)
        waiting.extend(before - seen)
        seen |= before
    return found


def _tensor_bytes(tensor: Any) -> int:
    if not tensor.shape.is_fully_defined() or tensor.dtype.base_dtype == tf.string:
        return 0
    return math.prod(tensor.shape.as_list()) * int(tensor.dtype.base_dtype.size)


def _size_of_files(checkpoint: str) -> int:
    """Returns the bytes that the files of a checkpoint take; 0 if they cannot be read."""
    try:
        sizes = [int(tf.io.gfile.stat(path).length) for path in checkpoint_files(checkpoint)]
        return sum(-(-size // _BLOCK) * _BLOCK for size in sizes)
    except tf.errors.OpError:
        return 0
