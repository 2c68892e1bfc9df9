"""HandOver: the state of the newest step, saved for the workers that are left after a loss.

A step that fails may have changed some variables and not others. So each worker keeps a copy of all
variables as they were after its newest whole step, beside the number of batches that it has read.
After a loss the first worker that is left writes the copy into a folder of the model directory. The
next chief starts from it if it is newer than the newest checkpoint, and then saves a checkpoint.
"""

import os
import re
from typing import NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor, Variable
from replicate.estimator.checkpoints.reading import read_variable, restore_variables
from replicate.estimator.checkpoints.state_saver import StateSaver
from replicate.estimator.checkpoints.worker_state import FOLDER
from replicate.graph_ops.own_variables import assign_copy, deep_copy, own_variable
from replicate.saved.checkpoint_names import optional_states, saved_variables

v1 = tf.compat.v1

_ELEMENTS = "hand_over/elements"
"""Name of the number of batches."""

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

    def __init__(self, elements: Tensor | None, model_dir: str, name: str):
        """Adds local variables and savers to the default graph, which has all other variables.

        Args:
          elements: Number of batches that were read, int64 []; None if the input starts anew.
          model_dir: The model directory, which all workers share.
          name: Rank of this worker and number of workers, such as "0_of_4".
        """
        self._folder = os.path.join(model_dir, FOLDER, "hand_over")
        self._prefix = os.path.join(self._folder, name)
        self._size = int(name.rpartition("_")[2])
        self._global_step = v1.train.get_global_step()
        variables = saved_variables()
        with v1.name_scope("hand_over"):
            copies = {name: _copy_of(each) for name, each in variables.items()}
            self._take = [assign_copy(copies[name], each) for name, each in variables.items()]
            with v1.device(CPU):
                count = own_variable(
                    _ELEMENTS, tf.constant(0, tf.int64), v1.GraphKeys.LOCAL_VARIABLES
                )
            if elements is not None:
                self._take.append(count.assign(elements, read_value=False))
            finite = [
                tf.debugging.assert_all_finite(copies[name].read_value(), f"{name} is not finite.")
                for name, each in variables.items()
                if each.trainable and each.dtype.is_floating
            ]
            with v1.control_dependencies(finite):
                self._step = copies[self._global_step.op.name].read_value()
            self._saver = v1.train.Saver({**copies, _ELEMENTS: count}, max_to_keep=None)
            # Workers of another number or with other settings may have kept less.
            self._loader = StateSaver(variables, optional_states())

    def take(self, session: v1.Session) -> None:
        """Copies the variables after a whole step."""
        session.run(self._take)

    def save(self, session: v1.Session) -> int:
        """Writes the copy, and returns its step. Any thread may call it.

        Raises:
          OpError: The copy cannot be written, or weights in it are not finite.
        """
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

        Raises:
          CheckpointError: It is damaged, or lacks variables of this model.
        """
        saved = self._saved()
        step = int(session.run(self._global_step))
        if not saved or saved[-1].step < step:
            return None
        if saved[-1].step == step and saved[-1].size == self._size:
            return None
        with session.graph.as_default():
            restore_variables(session, self._loader, saved[-1].path)
        return int(read_variable(saved[-1].path, _ELEMENTS))

    def exists(self) -> bool:
        """Returns True if a worker of this many has handed its state over.

        A worker that was cut off or frozen may do so late, when the others train as a new group.
        """
        return any(each.size == self._size for each in self._saved())

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
