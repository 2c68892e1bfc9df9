"""Checkpoints of averaged models: the averages, under the names of the weights.

Such a checkpoint is that of an ordinary model. Evaluation, prediction and export build the model
without the getter and load it; and training with the getter goes on from a checkpoint of training
without it. Nothing of a single worker is saved. Called by whatever writes or reads checkpoints.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Variable
from replicate.model_average.getter import averaged_variables

v1 = tf.compat.v1


def saved_variables() -> dict[str, Variable]:
    """Returns the variables of the default graph that a checkpoint holds, by their names in it."""
    names = {pair.center.ref(): pair.local.op.name for pair in averaged_variables()}
    return {names.get(each.ref(), each.op.name): each for each in v1.global_variables()}


def saved_objects() -> dict[str, Any] | None:
    """Returns what to give to `tf.compat.v1.train.Saver`; None, for all, where nothing is averaged.

    ```
    saver = tf.train.Saver(replicate.model_average.saved_objects())
    ```
    """
    if not averaged_variables():
        return None
    others = v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)
    return {**saved_variables(), **{each.name: each for each in others}}
