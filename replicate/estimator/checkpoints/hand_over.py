"""HandOver: the state of the newest step, saved for the workers that are left after a loss.

A step that fails may have changed some variables and not others. So each worker keeps a copy of all
variables as they were after its newest whole step, beside the number of batches that it has read.
After a loss the first worker that is left writes the copy into a folder of the model directory. The
next chief starts from it if it is newer than the newest checkpoint, and then saves a checkpoint.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor, Variable
from replicate.estimator.checkpoints.worker_state import FOLDER
from replicate.graph_ops.own_variables import assign_copy, deep_copy, own_variable

v1 = tf.compat.v1

_NAME = re.compile(r"(\d+)_of_(\d+)-(\d+)")
"""Rank of the worker that has written a state, number of workers, and step."""


class _Saved(NamedTuple):
    """A state that was handed over."""

    step: int
    size: int
    path: str


@final
class HandOver:
    """Copies of the variables of one worker."""

    def __init__(
        self, variables: Sequence[Variable], elements: Tensor | None, model_dir: str, name: str
    ):
        """Adds local variables and a saver to the default graph.

        Args:
          variables: The variables of the model, the global step among them.
          elements: Number of batches that were read, int64 []; None if the input starts anew.
          model_dir: The model directory, which all workers share.
          name: Rank of this worker and number of workers, such as "0_of_4".
        """
        self._folder = os.path.join(model_dir, FOLDER, "hand_over")
        self._prefix = os.path.join(self._folder, name)
        self._size = int(name.rpartition("_")[2])
        self._global_step = v1.train.get_global_step()
        step = self._global_step.op.name
        with v1.name_scope("hand_over"):
            copies = {each.op.name: _copy_of(each) for each in variables}
            pairs = [(copies[each.op.name], each) for each in variables]
            self._take = [assign_copy(copy, variable) for copy, variable in pairs]
            self._back = [assign_copy(variable, copy) for copy, variable in pairs]
            with v1.device(CPU):
                count = own_variable(
                    "hand_over/elements", tf.constant(0, tf.int64), v1.GraphKeys.LOCAL_VARIABLES
                )
            if elements is not None:
                self._take.append(count.assign(elements, read_value=False))
            self._step, self._elements = copies[step].read_value(), count.read_value()
            self._saver = v1.train.Saver({**copies, count.op.name: count}, max_to_keep=None)

    def take(self, session: v1.Session) -> None:
        """Copies the variables after a whole step."""
        session.run(self._take)

    def save(self, session: v1.Session) -> int:
        """Writes the copy, and returns its step. Any thread may call it."""
        with session.graph.as_default():
            step = int(session.run(self._step))
            tf.io.gfile.makedirs(self._folder)
            self._saver.save(session, self._prefix, step, write_meta_graph=False, write_state=False)
        return step

    def load(self, session: v1.Session) -> int | None:
        """Gives the variables the values that were handed over, if these are newer.

        Values of the same step count as newer if there were more or fewer workers: their place in
        the input holds for any number.

        Returns:
          The number of batches that were read; None if the variables keep their values.
        """
        saved = self._saved()
        step = int(session.run(self._global_step))
        if not saved or saved[-1].step < step:
            return None
        if saved[-1].step == step and saved[-1].size == self._size:
            return None
        with session.graph.as_default():
            self._saver.restore(session, saved[-1].path)
            session.run(self._back)
            return int(session.run(self._elements))

    def exists(self) -> bool:
        """Returns True if a worker has handed its state over."""
        return bool(self._saved())

    def remove(self) -> None:
        """Deletes what was handed over: the newest checkpoint has it."""
        if tf.io.gfile.exists(self._folder):
            tf.io.gfile.rmtree(self._folder)

    def _saved(self) -> list[_Saved]:
        """Returns the complete states, the newest last."""
        names = tf.io.gfile.glob(os.path.join(self._folder, "*.index"))
        paths = [name.removesuffix(".index") for name in names]
        found = [(path, _NAME.fullmatch(os.path.basename(path))) for path in sorted(paths)]
        return sorted(_Saved(int(it[3]), int(it[2]), path) for path, it in found if it)


def _copy_of(variable: Variable) -> Variable:
    with v1.device(variable.device):
        name, copy = f"hand_over/{variable.op.name}", lambda: deep_copy(variable)
        return own_variable(name, copy, v1.GraphKeys.LOCAL_VARIABLES)
