"""Failed saves: one error for every fault of the disk, and no leftovers.

Owns the decision which errors of a save are faults of the disk, their text, and the removal of what
a failed save has left. `hooks/saving.py` decides if training goes on.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from replicate.errors import SaveError
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.free_space import free_bytes
from replicate.estimator.checkpoints.model_dir import remove_failed_save
from replicate.estimator.checkpoints.retention import remove_save_note
from replicate.saved.disk_errors import disk_reason

_REFUSALS = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)
"""Errors that count as faults of the disk even without a text of the operating system."""

_ROOM = ("No space left on device", "Disk quota exceeded")


@contextlib.contextmanager
def save_errors(checkpoint: str, directory: FencedModelDir) -> Iterator[None]:
    """Raises a fault of the disk as a SaveError, after it has removed what the save left.

    Raises:
      SaveError: The checkpoint could not be written.
    """
    try:
        yield
    except SaveError:
        raise
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = disk_reason(error)
        if reason is None and isinstance(error, _REFUSALS):
            reason = error.message.splitlines()[0]
        if reason is None:
            raise
        failure = _save_error(checkpoint, reason)  # Before room is made: it names the free bytes.
        _clean_up(checkpoint, directory)
        raise failure from error


def _clean_up(checkpoint: str, directory: FencedModelDir) -> None:
    """Removes the leftovers, as far as a disk in trouble lets it."""
    remove_failed_save(checkpoint, directory)
    with contextlib.suppress(tf.errors.OpError):
        remove_save_note(directory)


def _save_error(checkpoint: str, reason: str) -> SaveError:
    folder = checkpoint.rpartition("/")[0]
    if not tf.io.gfile.isdir(folder):
        return SaveError(
            f"Cannot save {checkpoint}: {folder} was removed or replaced while training ran "
            f"({reason}).",
            "Bring the directory back, or give another model_dir, and start again.",
        )
    free = free_bytes(folder)
    room = "" if free is None else f" ({free:,} bytes free)"
    remedy = "Make room" if any(text in reason for text in _ROOM) else "Correct that"
    return SaveError(
        f"Cannot save {checkpoint}: {reason}{room}. The checkpoints before it are whole.",
        f"{remedy} and start again to continue from the newest one.",
    )
