"""The files that belong to a program, as opposed to installed packages and Python itself.

Packages lie in site-packages, or anywhere with a `*.dist-info` or `*.egg-info` beside them, as
`pip install --target` puts them. The `*.egg-info` of a source tree, beside its setup.py, is no sign
of that: `pip install -e` leaves one beside the program's own modules.
"""

import functools
import importlib.metadata
import os
import site
import sysconfig
from collections.abc import Iterator

_PROJECT_FILES = ("setup.py", "setup.cfg", "pyproject.toml")
_FOLDERS = ("site-packages", "dist-packages")
_OURS = ("replicate", "kfac", "model_deploy")
_LIBRARIES = ("tensorflow", "tf_slim", "tf_keras", "keras", "numpy")
"""Libraries that the runner repairs or replaces parts of, wherever they lie."""


def is_own_file(path: str) -> bool:
    """Returns True for a file that is in no installed package and not in the standard library."""
    path = os.path.realpath(path)
    if any(folder in path.split(os.sep) for folder in _FOLDERS):
        return False
    if path.startswith(_FOREIGN):
        return False
    return not _is_in_package(path)


def is_own_module(name: str, path: str) -> bool:
    """Returns True for a module of a program, by its dotted name and its file."""
    return name.partition(".")[0] not in _LIBRARIES and is_own_file(path)


def _foreign_folders() -> Iterator[str]:
    here = os.path.realpath(__file__)
    ours = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    yield from (os.path.join(ours, name) for name in _OURS)
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    yield from (os.path.realpath(sysconfig.get_path(name)) for name in names)
    yield from map(os.path.realpath, [*site.getsitepackages(), site.getusersitepackages()])


def _is_in_package(path: str) -> bool:
    """Returns True if a distribution beside one of the folders of a file names it as its own."""
    folder, part = os.path.split(path)
    while part:
        if part.removesuffix(".py") in _names_installed_in(folder):
            return True
        folder, part = os.path.split(folder)
    return False


# Looked up now: a hook on imports asks later, and Python may still be importing what tells it.
_FOREIGN = tuple(f"{folder}{os.sep}" for folder in _foreign_folders())


@functools.cache
def _names_installed_in(folder: str) -> frozenset[str]:
    """Returns the names that the distributions installed in a folder have there."""
    is_project = any(os.path.exists(os.path.join(folder, name)) for name in _PROJECT_FILES)
    names: set[str] = set()
    for each in importlib.metadata.distributions(path=[folder]):
        if each.read_text("RECORD") is None and is_project:
            continue
        names.update((each.read_text("top_level.txt") or "").split())
        names.update(os.path.splitext(file.parts[0])[0] for file in each.files or ())
        name = each.metadata["Name"]
        if name:  # All that a single file `*.egg-info` tells.
            names.add(name.replace("-", "_"))
    return frozenset(names - {"", ".", ".."})
