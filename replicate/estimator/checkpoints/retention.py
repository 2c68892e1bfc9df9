"""Retention: deletes surplus checkpoints of a save that was killed half-way.

Owns a small note in the model directory that exists while a checkpoint is written. It holds the
names of the new checkpoint and of those that the save deletes. A kill between the steps of a save
(rename the files, update the state file, delete the oldest checkpoint) can leave a complete
checkpoint that the state file does not list. No later run would delete it. The note distinguishes
it from checkpoints that are kept on purpose. `hooks/saving.py` writes the note, `estimator.py`
reads it.
"""

import contextlib
import re
from collections.abc import Sequence

import tensorflow as tf

from replicate.estimator.checkpoints.fallback import listed_checkpoints
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.checkpoints.reading import checkpoint_files
from replicate.estimator.log import log
from replicate.estimator.whole_files import write_whole

v1 = tf.compat.v1

_NOTE = "checkpoint.saving"
_UNFINISHED_NOTE = "checkpoint.tmp_saving"


def dropped_by(saver: v1.train.Saver) -> list[str]:
    """Returns the checkpoints that the next save of a saver may delete."""
    limit = saver.saver_def.max_to_keep
    kept = saver.last_checkpoints
    return list(kept[: max(0, len(kept) + 1 - limit)]) if limit else []


def announce(model_dir: str, paths: Sequence[str]) -> None:
    """Writes the note: after a kill, delete these checkpoints unless the state file lists them."""
    names = [path.rpartition("/")[2] for path in paths]
    write_whole(_in(model_dir, _NOTE), "\n".join(names), _in(model_dir, _UNFINISHED_NOTE))


def withdraw(model_dir: str) -> None:
    """Removes the note: the save is complete."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(_in(model_dir, _NOTE))


def remove_unlisted(model_dir: str) -> list[str]:
    """Completes a save that was killed: deletes the noted checkpoints that are not listed.

    Nothing is deleted as long as the state file is unusable.

    Returns:
      The names of the deleted checkpoints.
    """
    listed = {path.rpartition("/")[2] for path in listed_checkpoints(model_dir)}
    if not listed or not tf.io.gfile.exists(_in(model_dir, _NOTE)):
        return []
    with tf.io.gfile.GFile(_in(model_dir, _NOTE)) as file:
        noted = file.read().split()
    pattern = rf"{re.escape(CHECKPOINT_NAME)}-\d+"
    removed = []
    for name in noted:
        files = checkpoint_files(_in(model_dir, name)) if re.fullmatch(pattern, name) else []
        if files and name not in listed:
            for file in files:
                tf.io.gfile.remove(file)
            removed.append(name)
    withdraw(model_dir)
    if removed:
        log.info("Removed what a killed save left in %s: %s", model_dir, removed)
    return removed


def _in(model_dir: str, name: str) -> str:
    return f"{model_dir.rstrip('/')}/{name}"
