"""Fallback to older checkpoints: finds the newest readable checkpoint of a model directory.

Owns the order in which checkpoints are tried, and the rule for damaged ones: take the next older
checkpoint. It never starts over: a directory with signs of an earlier run but without a readable
checkpoint is an error. Every process may search. Only a training run, which writes to the directory
anyway, renames damaged checkpoints.
"""

import re
from typing import NamedTuple

import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.fenced_model_dir import STATE_FILE, FencedModelDir, write_state
from replicate.estimator.checkpoints.reading import checkpoint_files, damage_in
from replicate.estimator.log import log

v1 = tf.compat.v1


class _Found(NamedTuple):
    """Result of a search.

    Attributes:
      path: The newest readable checkpoint, None if the directory never had one.
      damaged: Descriptions of the damage of newer checkpoints, by path.
    """

    path: str | None
    damaged: dict[str, str]


def newest_checkpoint(model_dir: str) -> str | None:
    """Returns the path of the newest readable checkpoint, None if there never was one.

    The state file names the newest checkpoint. If the file is unusable or that checkpoint is
    damaged, the readable checkpoint with the highest step is taken, with a warning.

    Raises:
      CheckpointError: There was a checkpoint once, and none is left that can be read.
    """
    found = _search(model_dir)
    for path, damage in found.damaged.items():
        log.warning("Using %s, since checkpoint %s is damaged: %s.", found.path, path, damage)
    return found.path


def set_aside_damaged(directory: FencedModelDir) -> list[str]:
    """Renames the damaged checkpoints that are newer than the newest readable one to *.corrupt.

    Nothing is renamed if no checkpoint is readable.

    Returns:
      The paths of the damaged checkpoints.

    Raises:
      CheckpointError: There was a checkpoint once, and none is left that can be read.
      ModelDirInUseError: Another process took over.
    """
    found = _search(directory.model_dir)
    for path, damage in found.damaged.items():
        for file in checkpoint_files(path):
            directory.move(file, f"{file}.corrupt")
        log.warning(
            "Set checkpoint %s aside as %s.*.corrupt: %s. Training continues from %s.",
            path,
            path,
            damage,
            found.path,
        )
    if found.damaged and found.path is not None:
        whole = indexed_checkpoints(directory.model_dir)
        listed = [path for path in listed_checkpoints(directory.model_dir) if path in whole]
        write_state(directory, [*(path for path in listed if path != found.path), found.path])
    return list(found.damaged)


def listed_checkpoints(model_dir: str) -> list[str]:
    """Returns the checkpoints in the state file, oldest first; none if the file is unusable."""
    try:
        state = v1.train.get_checkpoint_state(model_dir)
    except (ValueError, tf.errors.OpError):
        return []
    if state is None:
        return []
    newest = state.model_checkpoint_path
    return [*(path for path in state.all_model_checkpoint_paths if path != newest), newest]


def indexed_checkpoints(model_dir: str) -> list[str]:
    """Returns the checkpoints whose index file is in the directory, lowest step first."""
    names = [name for name in tf.io.gfile.listdir(model_dir) if name.endswith(".index")]
    paths = [f"{model_dir.rstrip('/')}/{name.removesuffix('.index')}" for name in names]
    return sorted(paths, key=lambda path: (step_in_name(path), path))


def _search(model_dir: str) -> _Found:
    if not tf.io.gfile.isdir(model_dir):
        return _Found(None, {})
    newest = listed_checkpoints(model_dir)[-1:]
    others = [path for path in reversed(indexed_checkpoints(model_dir)) if path not in newest]
    damaged: dict[str, str] = {}
    for path in [*newest, *others]:
        damage = damage_in(path)
        if damage is None:
            if not newest:
                log.warning(
                    "%s is missing or unreadable; taking the newest one found, %s.",
                    _state_file(model_dir),
                    path,
                )
            return _Found(path, damaged)
        damaged[path] = damage
    _check_nothing_was_lost(model_dir, damaged)
    return _Found(None, {})


def _check_nothing_was_lost(model_dir: str, damaged: dict[str, str]) -> None:
    """Raises CheckpointError if a directory without a readable checkpoint ever had one."""
    advice = (
        "Restore the files from a copy, or use an empty model_dir to start at step 0. Nothing was "
        "overwritten or deleted."
    )
    if damaged:
        told = "; ".join(f"{path}: {damage}" for path, damage in damaged.items())
        raise CheckpointError(
            f"Cannot continue in {model_dir}: it held checkpoints, and none of them can be read. "
            f"{told}. {advice}"
        )
    if tf.io.gfile.exists(_state_file(model_dir)):
        raise CheckpointError(
            f"Cannot continue in {model_dir}: {_state_file(model_dir)} is unreadable and shows "
            f"that there were checkpoints, but no *.index file is left. {advice}"
        )
    without_index = [name for name in tf.io.gfile.listdir(model_dir) if ".data-" in name]
    lost = [name for name in without_index if step_in_name(name.partition(".data-")[0]) > 0]
    if lost:
        raise CheckpointError(
            f"Cannot continue in {model_dir}: it holds data of checkpoints, {sorted(lost)}, but no "
            f"*.index file is left. {advice}"
        )


def step_in_name(path: str) -> int:
    """Returns the step that the name of a checkpoint ends with, -1 if there is none."""
    found = re.search(r"-(\d+)$", path)
    return int(found[1]) if found else -1


def _state_file(model_dir: str) -> str:
    return f"{model_dir.rstrip('/')}/{STATE_FILE}"
