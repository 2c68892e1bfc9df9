"""Warm start: initialises a model with variables of another model.

Owns the settings (checkpoint and variables) and their application to a built graph, before a
session runs it. `tf.compat.v1.train.warm_start` maps names and vocabularies. An `Estimator` without
a checkpoint calls it to train, evaluate and predict. An export calls it to get a checkpoint of the
model.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Variable
from replicate.errors import ArgumentTypeError, CheckpointError, WarmStartError
from replicate.estimator.checkpoints.fallback import newest_checkpoint
from replicate.estimator.checkpoints.reading import damage_in, open_checkpoint
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.saved.checkpoint_names import former_names, saved_objects, saved_variables

v1 = tf.compat.v1

VocabInfo = v1.train.VocabInfo
"""Map of the rows of an embedding, or the columns of a weight, to a new vocabulary."""


class _Fields(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[str] | Sequence[Variable] | None
    var_name_to_vocab_info: Mapping[str, Any]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_Fields):
    """Initial values of a model, from a checkpoint.

    Attributes:
      ckpt_to_initialize_from: Path of a checkpoint, or of a directory whose newest one is taken.
      vars_to_warm_start: A regular expression that names of trainable variables, such as
        "layer/kernel:0", begin with; a list of such expressions, for variables of any kind; a list
        of variables; None for none but those in `var_name_to_vocab_info`.
      var_name_to_vocab_info: VocabInfo by name, for variables whose vocabulary has changed.
      var_name_to_prev_var_name: Name in the checkpoint by name in the model, where they differ.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str | os.PathLike[str],
        vars_to_warm_start: str | Sequence[str] | Sequence[Variable] | None = ".*",
        var_name_to_vocab_info: Mapping[str, Any] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> "WarmStartSettings":
        """Checks the settings.

        Raises:
          ValueError: There is no path.
          TypeError: vars_to_warm_start is of the wrong kind.
        """
        if not ckpt_to_initialize_from:
            raise ValueError(
                "WarmStartSettings: ckpt_to_initialize_from must be the path of a checkpoint or of "
                f"its directory, got {ckpt_to_initialize_from!r}."
            )
        return super().__new__(
            cls,
            os.fspath(ckpt_to_initialize_from),
            _checked_choice(vars_to_warm_start),
            dict(var_name_to_vocab_info or {}),
            dict(var_name_to_prev_var_name or {}),
        )


def warm_start_settings(warm_start_from: Any) -> WarmStartSettings | None:
    """Returns the settings for an argument `warm_start_from`.

    Args:
      warm_start_from: WarmStartSettings; the path of a checkpoint, of a directory of checkpoints
        or of a SavedModel, whose trainable variables are all taken; or None.

    Raises:
      TypeError: It is something else.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, bytes):
        warm_start_from = warm_start_from.decode()
    if not isinstance(warm_start_from, (str, os.PathLike)):
        raise ArgumentTypeError(
            "warm_start_from must be the path of a checkpoint or of a SavedModel, or "
            f"replicate.WarmStartSettings, got {warm_start_from!r}."
        )
    return WarmStartSettings(warm_start_from)


def apply_warm_start(settings: WarmStartSettings) -> None:
    """Initialises variables of the default graph with the values in a checkpoint.

    Raises:
      CheckpointError: There is no such checkpoint, it is damaged, or it does not fit the model; the
        last is a ValueError, too.
      ValueError: No trainable variable has a name that vars_to_warm_start matches.
    """
    _check_something_matches(settings.vars_to_warm_start)
    path = _checkpoint(settings.ckpt_to_initialize_from)
    _check_whole(path)
    settings = _with_former_names(_of_averages(settings), path)
    log.info("Warm start from %s", path)
    try:
        v1.train.warm_start(path, *settings[1:])
    except (ValueError, tf.errors.OpError) as error:
        raise WarmStartError(
            f"Cannot warm-start the model from {path}: {error}. Choose the variables that both "
            "have by WarmStartSettings(vars_to_warm_start=…), or map their names by "
            "var_name_to_prev_var_name."
        ) from error


def save_warm_start(
    settings: WarmStartSettings, scaffold: v1.train.Scaffold, config: RunConfig, folder: str
) -> str:
    """Saves the model of the default graph after its warm start; returns the checkpoint's path.

    The settings choose the variables, as in `apply_warm_start`. The others, such as the global step
    and moving averages, take the values that the source has under their names, if it has any.

    Raises:
      CheckpointError: There is no such source, or it does not fit the model; the last is a
        ValueError, too.
      ValueError: No trainable variable has a name that vars_to_warm_start matches.
    """
    apply_warm_start(settings)
    source = _checkpoint(settings.ckpt_to_initialize_from)
    others = _others(settings, source)
    loader = v1.train.Saver(others) if others else None
    saver = scaffold.saver or v1.train.Saver(saved_objects(), allow_empty=True)
    creator = RestoringSessionCreator(scaffold, saver, lambda: None, config.session_config)
    with creator.create_session() as session:
        if loader is not None:
            loader.restore(session, source)
        path = f"{folder}/model.ckpt"
        return str(saver.save(session, path, write_meta_graph=False, write_state=False))


def _others(settings: WarmStartSettings, source: str) -> dict[str, Variable]:
    """Returns the variables that the settings leave out and the source has, by name."""
    settings = _of_averages(settings)
    chosen = _chosen(settings.vars_to_warm_start, settings.var_name_to_vocab_info)
    names = {variable.op.name for variable in chosen}
    reader = open_checkpoint(source)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return {
        name: variable
        for name, variable in saved_variables().items()
        if variable.op.name not in names
        and name in shapes
        and variable.shape.is_compatible_with(shapes[name])
        and variable.dtype.base_dtype == dtypes[name]
    }


def _with_former_names(settings: WarmStartSettings, path: str) -> WarmStartSettings:
    """Returns settings that look for variables under names that other programs gave them."""
    there = open_checkpoint(path).get_variable_to_shape_map()
    previous = dict(settings.var_name_to_prev_var_name)
    chosen = _chosen(settings.vars_to_warm_start, settings.var_name_to_vocab_info)
    wanted = {variable.op.name for variable in chosen}
    for name, others in former_names().items():
        found = [other for other in others if other in there]
        if name in wanted and name not in there and found:
            previous.setdefault(name, found[0])
    return WarmStartSettings(*settings[:-1], var_name_to_prev_var_name=previous)


def _of_averages(settings: WarmStartSettings) -> WarmStartSettings:
    """Returns settings that load averages, for averaged weights, in place of local weights."""
    averages = {
        name: variable for name, variable in saved_variables().items() if name != variable.op.name
    }
    if not averages:
        return settings
    vocabularies = settings.var_name_to_vocab_info
    wanted: list[Variable] = _chosen(settings.vars_to_warm_start, vocabularies)
    chosen: list[Variable] = [averages.get(each.op.name, each) for each in wanted]

    def renamed(by_name: Mapping[str, Any]) -> dict[str, Any]:
        return {averages[k].op.name if k in averages else k: v for k, v in by_name.items()}

    names = {variable.op.name for variable in chosen}
    previous = {name: name for name, average in averages.items() if average.op.name in names}
    previous.update(settings.var_name_to_prev_var_name)
    return WarmStartSettings(
        settings.ckpt_to_initialize_from, chosen, renamed(vocabularies), renamed(previous)
    )


def _checked_choice(wanted: Any) -> Any:
    """Returns the value of vars_to_warm_start; a sequence becomes a list."""
    if wanted is None or isinstance(wanted, str):
        return wanted
    is_list = isinstance(wanted, Sequence) and not isinstance(wanted, bytes)
    if not is_list or not all(isinstance(each, (str, tf.Variable)) for each in wanted):
        raise ArgumentTypeError(
            "WarmStartSettings: vars_to_warm_start must be a regular expression, a list of such "
            f"expressions or of variables, or None, got {wanted!r}. Correct it."
        )
    return list(wanted)


def _chosen(
    wanted: str | Sequence[str] | Sequence[Variable] | None, vocabularies: Mapping[str, Any]
) -> list[Variable]:
    """Returns the variables that WarmStartSettings choose."""
    trainable = v1.GraphKeys.TRAINABLE_VARIABLES
    if isinstance(wanted, str):
        return list(v1.get_collection(trainable, wanted))
    found = {each.op.name: each for each in (*v1.global_variables(), *v1.trainable_variables())}
    chosen = {name: found[name] for name in vocabularies if name in found}
    for each in wanted or ():
        named = [each] if isinstance(each, tf.Variable) else _matching(found, each)
        chosen.update({variable.op.name: variable for variable in named})
    return list(chosen.values())


def _matching(found: Mapping[str, Variable], pattern: str) -> list[Variable]:
    return [variable for variable in found.values() if re.match(pattern, variable.name)]


def _check_something_matches(pattern: Any) -> None:
    key = v1.GraphKeys.TRAINABLE_VARIABLES
    if isinstance(pattern, str) and not v1.get_collection(key, pattern):
        names = [variable.name for variable in v1.get_collection(key)]
        raise ValueError(
            f"Cannot warm-start the model: vars_to_warm_start {pattern!r} matches none of the "
            f"trainable variables, {names}. Correct the pattern, or list the variables' names."
        )


def _check_whole(path: str) -> None:
    """Raises CheckpointError if a checkpoint is damaged: its values are read in a session later."""
    open_checkpoint(path)
    damage = damage_in(path)
    if damage is not None:
        raise CheckpointError(
            f"Cannot warm-start the model from {path}: {damage}. Choose another checkpoint."
        )


def _checkpoint(path: str) -> str:
    """Returns the checkpoint for the path of a checkpoint, a SavedModel or a directory."""
    gfile = tf.io.gfile
    if not gfile.isdir(path):
        return path
    if gfile.exists(f"{path}/saved_model.pb") or gfile.exists(f"{path}/saved_model.pbtxt"):
        return f"{path.rstrip('/')}/variables/variables"
    newest = newest_checkpoint(path)
    if newest is None:
        raise CheckpointError(
            f"Cannot warm-start the model: {path} holds no checkpoint. Correct the path."
        )
    return newest
