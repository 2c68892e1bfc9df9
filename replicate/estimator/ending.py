"""The end of training, told to processes that only watch the model directory.

Owns a small file in that directory. The process that trains in `train_and_evaluate` writes it when
it has made its last step, by whatever reason it was the last one, and removes it when training goes
on. An evaluator ends by it; without it, one that was given no last step would wait for ever. Its
`EvalSpec.start_delay_secs` are the time that a training which goes on has to withdraw an old end.
"""

import contextlib

import tensorflow as tf

_FILE = "training_ended"


def announce_end(model_dir: str) -> None:
    """Notes that training has ended; its last checkpoint is written."""
    with tf.io.gfile.GFile(_path(model_dir), "w") as file:
        file.write("Training has ended. Its evaluators end too, as long as this file exists.\n")


def withdraw_end(model_dir: str) -> None:
    """Removes the note: training goes on."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(_path(model_dir))


def has_ended(model_dir: str) -> bool:
    """Returns whether training has ended; what was written before that is there for the caller."""
    return bool(tf.io.gfile.exists(_path(model_dir)))


def _path(model_dir: str) -> str:
    return f"{model_dir.rstrip('/')}/{_FILE}"
