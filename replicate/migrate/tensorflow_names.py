"""Checks that names exist, in the TensorFlow that is installed and in what takes its place.

Loading TensorFlow takes seconds, so the files of its API are read first. It is loaded for a name
that they do not have. Without TensorFlow, nothing is checked.
"""

import ast
import functools
import importlib
import importlib.util
import types
from pathlib import Path
from typing import Any

from replicate.quiet_imports import quiet_stderr

_V2 = (
    "TensorFlow 1 has no such name, TensorFlow 2 has: write tf.compat.v2.{rest}, or leave a "
    "program of TensorFlow 2 as it is."
)
_GONE = "TensorFlow {version} has no tf.compat.v1.{rest}."
_NO_MODULE = "TensorFlow {version} has no {name}."
_LAZY = ("tf.keras",)  # Keras 3 hides names of it, legacy Keras has them.
_ADDED = ("app.flags.", "flags.")  # TensorFlow adds these modules when it is loaded.
_OURS = Path(__file__).parents[1]
_SLIM = "tf_slim"
_ON_TENSORFLOW = ("kfac", "model_deploy", "replicate", "tensorflow", _SLIM)
_REAL = ("compiler", "core", "lite", "python", "tools")


@functools.cache
def _tensorflow() -> Any:
    """Returns TensorFlow, None if it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return None
    with quiet_stderr():
        return importlib.import_module("tensorflow")


def missing(path: str) -> str | None:
    """Returns what is wrong with a name of the table, None if it is there in TensorFlow 1.

    Attributes of classes are not checked.
    """
    _, _, rest = path.partition(".")
    if not rest or f"{path}.".startswith(tuple(f"{e}." for e in _LAZY)):
        return None
    is_real = rest.split(".")[0] in _REAL
    is_added = not is_real and f"{rest}.".startswith(_ADDED)
    if is_added or _is_in_files(_folder_of_tensorflow() if is_real else _folder_of_v1(), rest):
        return None
    tensorflow = _tensorflow()
    if tensorflow is None:
        return None
    if is_real:
        name = f"tensorflow.{rest}"
        text = _NO_MODULE.format(version=tensorflow.__version__, name=name)
        return None if _is_there(name) else text
    if _has(tensorflow.compat.v1, rest):
        return None
    text = _V2 if _has(tensorflow, rest) else _GONE
    return text.format(version=tensorflow.__version__, rest=rest)


def is_of_v2(path: str) -> bool:
    """Returns True for a name that TensorFlow 2 has and TensorFlow 1 has not."""
    return (missing(path) or "").startswith("TensorFlow 1 ")


def missing_replacement(new: str) -> str | None:
    """Returns what is wrong with a new name, None if it is there or in no installed package."""
    root, _, rest = new.partition(".")
    if root == "tf":
        return missing(new)
    if root == "replicate" and (_is_in_files(_OURS, rest) or _is_public(rest)):
        return None
    if importlib.util.find_spec(root) is None or (root in _ON_TENSORFLOW and not _tensorflow()):
        return None
    with quiet_stderr():
        return None if _is_there(new) else f"There is no {new} here."


@functools.cache
def _folder_of(package: str) -> Path | None:
    """Returns the folder of a package, None if it is not installed."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) if folders else None


def _folder_of_tensorflow() -> Path | None:
    return _folder_of("tensorflow")


def _folder_of_v1() -> Path | None:
    """Returns the folder of tf.compat.v1, None if there is none."""
    folder = _folder_of_tensorflow()
    return None if folder is None else folder.joinpath("_api", "v2", "compat", "v1")


def _is_in_files(package: Path | None, rest: str) -> bool:
    """Returns True if the files of a package bind a dotted name, as far as modules lead."""
    if package is None:
        return False
    for name in rest.split("."):
        is_module = (package / name).is_dir() or (package / f"{name}.py").is_file()
        if not is_module:
            file = package / "__init__.py"
            return name in _names_in(file if file.is_file() else package.with_suffix(".py"))
        package = package / name
    return True


def _is_public(rest: str) -> bool:
    """Returns True for a name of `replicate` itself, or of `replicate.v1`."""
    return rest.removeprefix("v1.") in _names_in(_OURS / "public.py")


@functools.cache
def _names_in(file: Path) -> frozenset[str]:
    """Returns the names that a module has, as far as its file tells.

    They are those that it imports or defines at its top, or lists in `__all__`, and for a package
    of tf.contrib those of the modules of tf-slim that it names in `_HOMES`.
    """
    if not file.is_file():
        return frozenset()
    names: set[str] = set()
    for each in ast.parse(file.read_bytes()).body:
        if isinstance(each, ast.ImportFrom) and each.names[0].name == "*":
            names |= _names_of_module(each.module or "")
        elif isinstance(each, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in each.names)
        elif isinstance(each, ast.FunctionDef | ast.ClassDef):
            names.add(each.name)
        elif isinstance(each, ast.Assign):
            bound = {target.id for target in each.targets if isinstance(target, ast.Name)}
            names |= bound
            if "__all__" in bound:
                names.update(_texts_in(each.value))
            elif "_HOMES" in bound:
                homes = [f"{_SLIM}.{home}".rstrip(".") for home in _texts_in(each.value)]
                names = names.union(*map(_names_of_module, homes))
    return frozenset(names)


def _texts_in(value: ast.expr) -> list[str]:
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def _names_of_module(name: str) -> frozenset[str]:
    """Returns the names that a module of tf-slim has; none of any other package."""
    root, _, rest = name.partition(".")
    folder = _folder_of(root) if root == _SLIM else None
    if folder is None:
        return frozenset()
    home = folder.joinpath(*filter(None, rest.split(".")))
    file = home / "__init__.py"
    return _names_in(file if file.is_file() else home.with_suffix(".py"))


def _has(value: Any, rest: str) -> bool:
    """Returns True if a module has a dotted name, as far as that leads through modules."""
    for name in rest.split("."):
        if not isinstance(value, types.ModuleType):
            return True
        try:
            value = getattr(value, name)
        except AttributeError:
            return False
    return True


@functools.cache
def _is_there(name: str) -> bool:
    """Returns True if a dotted name can be imported, or is an attribute of what can be."""
    parts = name.split(".")
    value: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        if not isinstance(value, types.ModuleType):
            return True
        try:
            value = getattr(value, part)
        except AttributeError:
            module = ".".join(parts[:number])
            try:
                value = importlib.import_module(module)
            except ImportError:
                return False
    return True
