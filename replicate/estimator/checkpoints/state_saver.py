"""Saver of a model whose checkpoints may lack the state of optimizers.

A directory in which another program trained the same model holds its weights, and slots under other
names or none. `StateSaver` loads what is there and initialises the state that is not.
`saved/checkpoint_names.py` tells which state may be missing; a missing weight stays an error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, final

import tensorflow as tf

from replicate._types import Variable
from replicate.estimator.log import log
from replicate.saved.checkpoint_names import OptimizerState

v1 = tf.compat.v1


@final
class StateSaver(v1.train.Saver):
    """Saver that initialises the state of an optimizer if a checkpoint lacks it."""

    def __init__(
        self, objects: Mapping[str, Any] | None, states: Sequence[OptimizerState], **options: Any
    ):
        """Makes the operations that save and load.

        Args:
          objects: What to save, by name; None for everything in the default graph.
          states: Parts of it that a checkpoint may lack, each as a whole.
          **options: Other arguments of `tf.compat.v1.train.Saver`.
        """
        super().__init__(objects, **options)
        sharded = options.get("sharded", False)
        self._states = [
            (state, v1.train.Saver(state.variables, sharded=sharded)) for state in states
        ]
        optional = {variable.ref() for state in states for variable in state.variables}
        self._rest = v1.train.Saver(_without(objects, optional), sharded=sharded, allow_empty=True)

    def restore(self, sess: v1.Session, save_path: str) -> None:
        """Loads a checkpoint. State that it lacks, even in part, gets its initial values.

        Raises:
          ValueError: There is no such checkpoint.
          OpError: It lacks other variables of the graph, or is damaged.
        """
        saved = v1.train.load_checkpoint(save_path).get_variable_to_shape_map()
        lacking = [state for state, _ in self._states if not holds(saved, state.variables)]
        if not lacking:
            super().restore(sess, save_path)
            return
        self._rest.restore(sess, save_path)
        for state, saver in self._states:
            if state in lacking:
                _initialize(sess, save_path, state)
            else:
                saver.restore(sess, save_path)


def _without(objects: Mapping[str, Any] | None, optional: set[Any]) -> Any:
    """Returns all that is saved but some variables, as a Saver takes it."""

    def is_kept(each: Any) -> bool:
        return not isinstance(each, tf.Variable) or each.ref() not in optional

    if objects is not None:
        return {name: each for name, each in objects.items() if is_kept(each)}
    all_objects = [*v1.global_variables(), *v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)]
    return [each for each in all_objects if is_kept(each)]


def holds(saved: Mapping[str, Any], variables: Sequence[Variable]) -> bool:
    """Returns True if a checkpoint holds each variable, whole or in the partitions of one."""
    return all(
        variable.op.name in saved or re.sub(r"/part_\d+", "", variable.op.name) in saved
        for variable in variables
    )


def _initialize(session: v1.Session, path: str, state: OptimizerState) -> None:
    variables: list[Variable] = state.variables
    session.run([variable.initializer for variable in variables])
    log.info(
        "Checkpoint %s lacks the slots and other state of %s under the names of this model, as "
        "another program or optimizer wrote it: these %d variables, such as %s, start at their "
        "initial values.",
        path,
        state.owner,
        len(variables),
        variables[0].op.name,
    )
