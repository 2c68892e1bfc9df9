"""Retention: the checkpoints of a training run that count against its limit, and their deletion.

Owns the rules of `tf.compat.v1.train.Saver` for old checkpoints, and a small note in the model
directory that exists while a checkpoint is written. It holds the names of the new checkpoint and of
those that the save deletes. A kill between the steps of a save (publish the files, update the state
file, delete the oldest checkpoint) can leave a complete checkpoint that the state file does not
list. No later run would delete it. The note distinguishes it from checkpoints that are kept on
purpose. `hooks/saving.py` writes the note, `estimator.py` reads it.
"""

import re
import time
from collections.abc import Sequence
from typing import NamedTuple, final

import tensorflow as tf

from replicate.estimator.checkpoints.fallback import listed_checkpoints
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir, write_state
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.checkpoints.reading import checkpoint_files
from replicate.estimator.log import log

v1 = tf.compat.v1

_NOTE = "checkpoint.saving"
_SECS_PER_HOUR = 3600


class _Kept(NamedTuple):
    """A checkpoint that counts against the limit, and the time of its save."""

    path: str
    saved_at: float


@final
class KeptCheckpoints:
    """Checkpoints that count against the limit of a saver, oldest first.

    The saver's own list is kept equal, for programs that read it.
    """

    def __init__(self, saver: v1.train.Saver, directory: FencedModelDir):
        """Starts without checkpoints. The saver holds the limits of those that are kept."""
        self._saver = saver
        self._directory = directory
        self._limit = saver.saver_def.max_to_keep
        self._secs_between = saver.saver_def.keep_checkpoint_every_n_hours * _SECS_PER_HOUR
        self._next_for_ever = time.time() + self._secs_between
        self._kept: list[_Kept] = []

    def start(self, paths: Sequence[str]) -> None:
        """Takes the checkpoints that an earlier run has left, oldest first."""
        self._set([_Kept(path, _saved_at(path)) for path in paths])

    def due_with(self, path: str) -> list[str]:
        """Returns the checkpoints that the save of a checkpoint deletes."""
        dropped = self._plan(path)[1]
        return [] if dropped is None or self._stays(dropped) else [dropped.path]

    def add(self, path: str) -> None:
        """Lists a checkpoint that was saved, and deletes what is then above the limit.

        Raises:
          ModelDirInUseError: Another process took over.
          tf.errors.OpError: The state file cannot be written.
        """
        kept, dropped = self._plan(path)
        listed = [each.path for each in kept if each.path != path]
        write_state(self._directory, [*listed, path])
        self._set(kept)
        if dropped is None:
            return
        if self._stays(dropped):
            self._next_for_ever += self._secs_between
            return
        try:
            for file in checkpoint_files(dropped.path):
                self._directory.remove(file)
        except tf.errors.OpError as error:  # The new checkpoint is whole.
            log.warning("Cannot delete the old checkpoint %s: %s", dropped.path, error.message)

    def _plan(self, path: str) -> tuple[list[_Kept], _Kept | None]:
        """Returns what counts after the save of a checkpoint, and what no longer does."""
        if not self._limit:
            return self._kept, None
        kept = [each for each in self._kept if each.path != path]
        kept.append(_Kept(path, time.time()))
        return (kept[1:], kept[0]) if len(kept) > self._limit else (kept, None)

    def _stays(self, dropped: _Kept) -> bool:
        """Returns True if a checkpoint is kept for ever."""
        return dropped.saved_at > self._next_for_ever

    def _set(self, kept: list[_Kept]) -> None:
        self._kept = kept
        self._saver.set_last_checkpoints_with_time([tuple(each) for each in kept])


def write_save_note(directory: FencedModelDir, paths: Sequence[str]) -> None:
    """Writes the note: after a kill, delete these checkpoints unless the state file lists them.

    Raises:
      ModelDirInUseError: Another process took over.
      tf.errors.OpError: It cannot be written.
    """
    names = [path.rpartition("/")[2] for path in paths]
    directory.write(_NOTE, "\n".join(names))


def remove_save_note(directory: FencedModelDir) -> None:
    """Removes the note: the save is complete.

    Raises:
      ModelDirInUseError: Another process took over.
    """
    directory.remove(f"{directory.model_dir}/{_NOTE}")


def remove_unlisted(directory: FencedModelDir) -> list[str]:
    """Completes a save that was killed: deletes the noted checkpoints that are not listed.

    Nothing is deleted as long as the state file is unusable.

    Returns:
      The names of the deleted checkpoints.

    Raises:
      ModelDirInUseError: Another process took over.
    """
    model_dir = directory.model_dir
    listed = {path.rpartition("/")[2] for path in listed_checkpoints(model_dir)}
    if not listed or not tf.io.gfile.exists(f"{model_dir}/{_NOTE}"):
        return []
    with tf.io.gfile.GFile(f"{model_dir}/{_NOTE}") as file:
        noted = file.read().split()
    pattern = rf"{re.escape(CHECKPOINT_NAME)}-\d+"
    removed = []
    for name in noted:
        found = checkpoint_files(f"{model_dir}/{name}") if re.fullmatch(pattern, name) else []
        if found and name not in listed:
            for file in found:
                directory.remove(file)
            removed.append(name)
    remove_save_note(directory)
    if removed:
        log.info("Removed what a killed save left in %s: %s", model_dir, removed)
    return removed


def _saved_at(path: str) -> float:
    """Returns the time at which a checkpoint was written, in seconds since the epoch."""
    return float(tf.io.gfile.stat(f"{path}.index").mtime_nsec) / 1e9
