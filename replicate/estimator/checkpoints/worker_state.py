"""WorkerState: variables that one worker has of its own, saved beside the chief's checkpoints.

Workers that train apart keep the slots of their optimizer to themselves, and checkpoints have only
those of the chief. So every other worker writes its own in the same round, into a folder of the
model directory. A worker that finds none for the step of the chief's checkpoint starts with the
chief's values, for example after the number of workers has changed, or what they keep.
"""

import os
from collections.abc import Sequence
from typing import final

import tensorflow as tf

from replicate._types import Variable
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.checkpoints.state_saver import holds

v1 = tf.compat.v1

FOLDER = "worker_state"
"""Folder in the model directory, with a folder for each worker."""


@final
class WorkerState:
    """Files of one worker."""

    def __init__(
        self,
        variables: Sequence[Variable],
        model_dir: str,
        rank: int,
        size: int,
        kept: int | None,
        not_shared: Sequence[Variable] = (),
    ):
        """Adds a saver to the default graph.

        Args:
          variables: Variables of this worker's own.
          model_dir: The model directory, which all workers share.
          rank: Number of this worker.
          size: Number of workers.
          kept: Number of states to keep, None for all.
          not_shared: Variables that begin anew without a state: the chief's would count twice.
        """
        self._prefix = os.path.join(model_dir, FOLDER, f"{rank}_of_{size}", CHECKPOINT_NAME)
        self._variables = list(variables)
        self._not_shared = [each.initializer for each in not_shared]
        self._saver = v1.train.Saver(self._variables, max_to_keep=kept) if variables else None

    def save(self, session: v1.Session, step: int) -> None:
        """Writes the state of a step."""
        if self._saver is not None:
            tf.io.gfile.makedirs(os.path.dirname(self._prefix))
            self._saver.save(session, self._prefix, step, write_meta_graph=False)

    def restore(self, session: v1.Session, step: int) -> None:
        """Loads the state of a step, if there is a whole one, and removes those of later steps."""
        if self._saver is None:
            return
        states = self._states()
        for later in [number for number in states if number > step]:
            for name in tf.io.gfile.glob(f"{states.pop(later)}.*"):
                tf.io.gfile.remove(name)
        times = enumerate(states[number] for number in sorted(states))
        self._saver.set_last_checkpoints_with_time([(path, float(time)) for time, path in times])
        if step in states and holds(dict(tf.train.list_variables(states[step])), self._variables):
            self._saver.restore(session, states[step])
        else:
            session.run(self._not_shared)

    def _states(self) -> dict[int, str]:
        """Returns the paths of complete states by their steps."""
        names = tf.io.gfile.glob(f"{self._prefix}-*.index")
        paths = [name.removesuffix(".index") for name in names]
        return {int(path.rpartition("-")[2]): path for path in paths}
