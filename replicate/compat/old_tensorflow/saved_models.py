"""Paths inside of a SavedModel, and versions of exports, by the old private functions."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

_ASSETS = tf.saved_model.ASSETS_DIRECTORY
_VARIABLES = tf.saved_model.VARIABLES_DIRECTORY


def get_assets_dir(export_dir: str) -> str:
    """Returns the folder of the assets."""
    return os.path.join(os.fsdecode(export_dir), _ASSETS)


def get_variables_dir(export_dir: str) -> str:
    """Returns the folder of the variables."""
    return os.path.join(os.fsdecode(export_dir), _VARIABLES)


def get_variables_path(export_dir: str) -> str:
    """Returns the prefix of the variables' files."""
    return os.path.join(get_variables_dir(export_dir), tf.saved_model.VARIABLES_FILENAME)


class Path(NamedTuple):
    """An export and its version."""

    path: str
    export_version: int | None


Filter: TypeAlias = Callable[[Sequence[Path]], list[Path]]


def get_paths(base_dir: str, parser: Callable[[Path], Path | None]) -> list[Path]:
    """Returns what the parser makes of the entries of a folder, sorted; None leaves one out."""
    folder = os.fsdecode(base_dir)
    entries = (entry.rstrip("/") for entry in tf.io.gfile.listdir(folder))
    parsed = (parser(Path(os.path.join(folder, entry), None)) for entry in entries)
    return sorted(each for each in parsed if each is not None)


def largest_export_versions(count: int) -> Filter:
    """Returns a filter that keeps the exports of the largest versions, in their order."""

    def keep(paths: Sequence[Path]) -> list[Path]:
        ranked = sorted(paths, key=_version)
        return sorted(ranked[-count:] if count > 0 else [])

    return keep


def negation(keep: Filter) -> Filter:
    """Returns a filter that keeps the exports that another one does not keep."""

    def keep_others(paths: Sequence[Path]) -> list[Path]:
        kept = set(keep(paths))
        return sorted(each for each in paths if each not in kept)

    return keep_others


def _version(path: Path) -> Any:
    return path.export_version
