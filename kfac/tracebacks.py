"""Tracebacks of errors: the user's frames, without those of libraries.

An error that leaves a public function shows the lines of the user's program that led to it, also
those in a `model_fn` that the function calls. The frames of `kfac`, `model_deploy`, `replicate`,
TensorFlow and Keras are dropped, and those of the standard library that they call. Type, message,
cause and context of the error stay as they are. `tf.debugging.disable_traceback_filtering()`, the
switch of TensorFlow's own filter, brings the frames back.

`model_deploy/tracebacks.py` has the same code, as neither package needs the other; a test compares
them.
"""

import functools
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES = ("kfac", "model_deploy", "replicate")
_OURS = tuple(os.path.join(_ROOT, name, "") for name in _PACKAGES)
_OTHERS = ("keras", "tensorflow", "tensorflow_estimator", "tf_keras")
_STANDARD = (os.path.join(sysconfig.get_path("stdlib"), ""), "<frozen ")
_INSTALLED = tuple(os.path.join(sysconfig.get_path(key), "") for key in ("purelib", "platlib"))

_RAISES_OLD_TRACEBACK = sys.version_info < (3, 11)
"""True if a bare `raise` has the traceback from before it was changed. Another adds its frame."""

_FAULTS = (AssertionError, AttributeError, IndexError, KeyError, NameError, UnboundLocalError)
"""Types of errors that are faults of the library if its own code raises them: all is shown."""


def shows_user_frames(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Returns a function, or generator function, whose errors show the user's frames alone."""

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            drop_library_frames(error)
            if _RAISES_OLD_TRACEBACK:
                raise error.with_traceback(error.__traceback__)  # noqa: B904
            raise

    @functools.wraps(function)
    def generate(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
        try:
            return (yield from function(*args, **kwargs))  # type: ignore[misc]
        except Exception as error:
            drop_library_frames(error)
            if _RAISES_OLD_TRACEBACK:
                raise error.with_traceback(error.__traceback__)  # noqa: B904
            raise

    shown = generate if inspect.isgeneratorfunction(function) else call
    # For those who ask by inspect.getfullargspec, such as tf.estimator, which ignores wrappers.
    setattr(shown, "__signature__", inspect.signature(function))  # noqa: B010
    return shown


def methods_show_user_frames(of: Class) -> Class:
    """Makes the errors of a class's public methods, and of its constructor, show user frames."""
    for name, member in list(vars(of).items()):
        if isinstance(member, types.FunctionType) and (name == "__init__" or name[0] != "_"):
            setattr(of, name, shows_user_frames(member))
    return of


def drop_library_frames(error: BaseException) -> None:
    """Drops the frames of libraries from the tracebacks of an error, its causes and contexts.

    A fault of the library, such as an AttributeError in its own code, keeps all frames.
    """
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and not tensorflow.debugging.is_traceback_filtering_enabled():
        return
    if not _is_fault(error):
        libraries = (*_OURS, *_folders_of(_OTHERS))
        for each in _chain(error):
            each.__traceback__ = _of_user(each.__traceback__, libraries)


def _is_fault(error: BaseException) -> bool:
    entries = list(_entries(error.__traceback__))
    return type(error) in _FAULTS and bool(entries) and _file(entries[-1]).startswith(_OURS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and those that led to it."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and not any(each is other for other in found):
            found.append(each)
            pending += [each.__cause__, each.__context__]
            yield each


def _of_user(
    traceback: types.TracebackType | None, libraries: tuple[str, ...]
) -> types.TracebackType | None:
    """Returns a traceback without the frames of libraries, and what these call in Python's own."""
    kept: list[types.TracebackType] = []
    is_inside = True
    for entry in _entries(traceback):
        file = _file(entry)
        is_standard = file.startswith(_STANDARD) and not file.startswith(_INSTALLED)
        is_inside = file.startswith(libraries) or (is_inside and is_standard)
        if not is_inside:
            kept.append(entry)
    return _joined(kept)


def _joined(entries: Iterable[types.TracebackType]) -> types.TracebackType | None:
    joined = None
    for entry in reversed(list(entries)):
        joined = types.TracebackType(joined, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return joined


def _entries(traceback: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _file(entry: types.TracebackType) -> str:
    """Returns the file of a frame; for code that `dataclasses` wrote, that of its package."""
    file = entry.tb_frame.f_code.co_filename
    package = str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return os.path.join(_ROOT, package, file) if file == "<string>" else file


def _folders_of(packages: Iterable[str]) -> Iterator[str]:
    """Yields the folders of those packages that are loaded.

    TensorFlow lists None for a Keras that it did not find.
    """
    for name in packages:
        for path in filter(None, getattr(sys.modules.get(name), "__path__", ())):
            yield os.path.join(path, "")
