"""End marker: a file in the model directory that says that training has ended.

`train_and_evaluate` writes the marker after its last step, whatever ended training, and removes it
when training continues. An evaluator ends when it sees the marker; without it, an evaluator without
a last step would wait for ever. A run that continues has `EvalSpec.start_delay_secs` to remove an
old marker, for which an evaluator waits; a new marker ends that wait. A worker that waits for other
processes ends by the marker, too, but only if the marker is not from an earlier run.
"""

import contextlib
import time
import uuid

import tensorflow as tf

from replicate.saved.disk_errors import disk_errors

OLD_SECS = 300
"""Seconds for which a worker waits for the chief to remove a marker older than the worker."""

_FILE = "training_ended"
_LINE = "Training has ended. Its evaluators end too, as long as this file exists."


def announce_end(model_dir: str) -> None:
    """Writes the end marker. The last checkpoint must be written before.

    Raises:
      CheckpointError: The disk refuses it.
    """
    task = f"Cannot write {_path(model_dir)}, which tells the evaluators that training has ended"
    advice = "The last checkpoint is whole. Start again when files can be written there."
    with disk_errors(task, advice), tf.io.gfile.GFile(_path(model_dir), "w") as file:
        file.write(f"{_LINE}\nNumber of this note: {uuid.uuid4().hex}\n")


def withdraw_end(model_dir: str) -> None:
    """Removes the end marker, if there is one: training continues."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(_path(model_dir))


def has_ended(model_dir: str) -> bool:
    """Returns True if the end marker exists; all files of the training were written before it."""
    return bool(tf.io.gfile.exists(_path(model_dir)))


class TrainingEnd:
    """The end of a training run, as one of its workers sees it.

    Create it before the worker waits for other processes. A marker that appears or changes later
    belongs to the run of the worker. A marker that exists already may belong to an earlier run
    whose chief is about to start again, or to this run if the worker is late.
    """

    def __init__(self, model_dir: str):
        self._model_dir = model_dir
        self._first = _read_marker(model_dir)
        self._since = time.monotonic()

    def is_new(self) -> bool:
        """Returns True if training has ended after this object was made."""
        return _read_marker(self._model_dir) not in ("", self._first)

    def is_final(self) -> bool:
        """Returns True if training has ended, and no chief is expected to continue it.

        That is so if the marker is new, or if nobody has removed an old one for `OLD_SECS`. Ask
        only if no parameter server can be reached: as long as they run, a chief may still start.
        """
        is_old = time.monotonic() - self._since > OLD_SECS
        return self.is_new() or (is_old and has_ended(self._model_dir))


def _read_marker(model_dir: str) -> str:
    """Returns the text of the marker, "" if there is none that can be read."""
    try:
        with tf.io.gfile.GFile(_path(model_dir)) as file:
            return str(file.read())
    except tf.errors.OpError:
        return ""


def _path(model_dir: str) -> str:
    return f"{model_dir.rstrip('/')}/{_FILE}"
