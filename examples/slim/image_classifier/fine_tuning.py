"""Fine-tuning: a model takes its initial values from another one, and trains some variables.

Selects variables by scope and restores them when a run is first initialised.
`train_image_classifier` skips this if a run continues from its own checkpoint.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from examples import cli
from examples.slim.image_classifier import checkpoints
from examples.slim.image_classifier.data_flags import FlagError

v1 = tf.compat.v1
Variable = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuning:
    """Initial values of a model. The fields are flags of the same names.

    Attributes:
      checkpoint_path: A checkpoint, or a directory whose newest one is taken.
      checkpoint_exclude_scopes: Scopes whose variables are initialised as ever, with commas.
      ignore_missing_vars: True: do the same with variables that the checkpoint lacks.
    """

    checkpoint_path: str
    checkpoint_exclude_scopes: str | None = None
    ignore_missing_vars: bool = False


def scopes(text: str | None) -> list[str]:
    """Returns the names in a list with commas, without blanks; none if there is no list."""
    return [name for name in map(str.strip, (text or "").split(",")) if name]


def variables_to_train(trainable_scopes: str | None) -> list[Variable]:
    """Returns the trainable variables in these scopes, each once; None stands for all of them.

    Raises:
      FlagError: A scope has no trainable variable.
    """
    everything = v1.trainable_variables()
    if trainable_scopes is None:
        return everything
    chosen: list[Variable] = []
    for scope in scopes(trainable_scopes):
        inside = [variable for variable in everything if variable.op.name.startswith(scope)]
        if not inside:
            first = sorted({variable.op.name.rpartition("/")[0] for variable in everything})[:10]
            raise FlagError(
                f"--trainable_scopes: no trainable variable is in scope {scope!r}. Scopes of this "
                f"model are {', '.join(first)} ... Correct the flag."
            )
        chosen += [variable for variable in inside if not any(variable is one for one in chosen)]
    return chosen


def variables_to_restore(
    settings: FineTuning, model_variables: Sequence[Variable], checkpoint: str
) -> list[Variable]:
    """Returns the variables that begin with the values in a checkpoint.

    Raises:
      FlagError: The checkpoint lacks variables, or has them in other shapes; all are listed.
    """
    excluded = tuple(scopes(settings.checkpoint_exclude_scopes))
    wanted = [v for v in model_variables if not excluded or not v.op.name.startswith(excluded)]
    saved = v1.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    missing = [v.op.name for v in wanted if v.op.name not in saved]
    if missing and not settings.ignore_missing_vars:
        raise FlagError(
            f"Cannot begin with {checkpoint}: it has no {', '.join(missing)}. Leave them out by "
            "--checkpoint_exclude_scopes, or set --ignore_missing_vars."
        )
    there = [v for v in wanted if v.op.name in saved]
    different = [
        f"{v.op.name} is {saved[v.op.name]} there and {v.shape.as_list()} here"
        for v in there
        if saved[v.op.name] != v.shape.as_list()
    ]
    if different:
        raise FlagError(
            f"Cannot begin with {checkpoint}: {'; '.join(different)}. Leave them out by "
            "--checkpoint_exclude_scopes."
        )
    if not there:
        raise FlagError(f"Cannot begin with {checkpoint}: it has no variable of this model.")
    return there


def initial_values(
    settings: FineTuning,
    model_variables: Sequence[Variable],
    averages: v1.train.ExponentialMovingAverage | None,
) -> Callable[[v1.train.Scaffold, v1.Session], None]:
    """Returns an `init_fn` for a `tf.compat.v1.train.Scaffold`.

    Moving averages of the variables begin with the same values.

    Raises:
      FlagError: As `variables_to_restore`.
      ValueError: There is no checkpoint.
    """
    checkpoint = checkpoints.newest(settings.checkpoint_path)
    restored = variables_to_restore(settings, model_variables, checkpoint)
    saver = v1.train.Saver(restored, name="fine_tuning")
    pairs = [] if averages is None else [(averages.average(v), v) for v in restored]
    follow = tf.group(*(v1.assign(average, v) for average, v in pairs if average is not None))

    def restore(scaffold: v1.train.Scaffold, session: v1.Session) -> None:
        del scaffold
        saver.restore(session, checkpoint)
        session.run(follow)
        cli.show(
            "fine-tuning", f"{len(restored)} of {len(model_variables)} variables of {checkpoint}"
        )

    return restore
