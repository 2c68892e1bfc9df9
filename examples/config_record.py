"""ConfigRecord: the hook that writes config.json when training begins.

An `Estimator` calls hooks under the writer lease of the model directory, so that a second job that
is refused does not overwrite the configuration of the job that trains. `cli.record_config` writes
the file.
"""

import typing
from typing import Any

import tensorflow as tf

import replicate
from examples import cli

v1 = tf.compat.v1


@typing.final
class ConfigRecord(v1.train.SessionRunHook):
    """Writes the configuration of a run when training begins. For the chief only.

    If the file cannot be written, the program ends with one line and exit code 2.
    """

    def __init__(self, estimator: replicate.Estimator, folder: str = "", **settings: Any) -> None:
        """Writes nothing yet.

        The folder "" is that of the checkpoints. Further settings are as for `cli.record_config`.
        """
        self._estimator = estimator
        self._folder = folder or estimator.model_dir
        self._settings = {**settings, "run_config": estimator.config}

    def begin(self) -> None:
        """Writes the file, and keeps that of a run before if it differs."""
        step = cli.step_of(self._estimator)
        with cli.bad_input():
            cli.record_config(self._folder, step, **self._settings)
