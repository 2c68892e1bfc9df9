"""The end of training, told to processes that only watch the model directory.

Owns a small file in that directory. The process that trains in `train_and_evaluate` writes it when
it has made its last step, by whatever reason it was the last one, and removes it when training goes
on. An evaluator ends by it; without it, one that was given no last step would wait for ever. Its
`EvalSpec.start_delay_secs` are the time that a training which goes on has to withdraw an old end. A
worker that waits for others ends by it, too, but tells a new note from that of an earlier run.
"""

import contextlib
import time
import uuid

import tensorflow as tf

OLD_SECS = 300
"""How long a worker gives a chief time to withdraw a note that was there before the worker."""

_FILE = "training_ended"
_LINE = "Training has ended. Its evaluators end too, as long as this file exists."


def announce_end(model_dir: str) -> None:
    """Notes that training has ended; its last checkpoint is written."""
    with tf.io.gfile.GFile(_path(model_dir), "w") as file:
        file.write(f"{_LINE}\nNumber of this note: {uuid.uuid4().hex}\n")


def withdraw_end(model_dir: str) -> None:
    """Removes the note: training goes on."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(_path(model_dir))


def has_ended(model_dir: str) -> bool:
    """Returns whether training has ended; what was written before that is there for the caller."""
    return bool(tf.io.gfile.exists(_path(model_dir)))


class Ending:
    """The end of training, seen by a worker that may wait for processes that are gone.

    Made before the worker waits for others. A note that appears later, or another one, is of the
    run that the worker belongs to. One that is there already may be of an earlier run, whose chief
    is about to start anew; or the worker itself is late.
    """

    def __init__(self, model_dir: str):
        """Looks at the note; no two have the same number."""
        self._model_dir = model_dir
        self._first = _note(model_dir)
        self._since = time.monotonic()

    def is_new(self) -> bool:
        """Returns whether training has ended since."""
        note = _note(self._model_dir)
        return note not in ("", self._first)

    def is_final(self) -> bool:
        """Returns whether it has ended since, or before and nobody has withdrawn that in time.

        To be asked only where nobody can be reached who trains: a chief may start as late as it
        likes as long as its parameter servers are there.
        """
        is_old = time.monotonic() - self._since > OLD_SECS
        return self.is_new() or (is_old and has_ended(self._model_dir))


def _note(model_dir: str) -> str:
    """The text of the note, "" without one that can be read."""
    try:
        with tf.io.gfile.GFile(_path(model_dir)) as file:
            return str(file.read())
    except tf.errors.OpError:
        return ""


def _path(model_dir: str) -> str:
    return f"{model_dir.rstrip('/')}/{_FILE}"
