"""Uncaught errors: a task of a cluster ends with the exit code of the error that ends it.

Python ends with code 1 after every error that nobody catches, and a scheduler then believes that
another start does not help. So `sys.excepthook` is extended, at the moment when an error with a
code leaves a training or evaluating call of a task: neither before, nor in a process on its own.
The former hook still shows the error, and the interpreter ends as it always does: it waits for
threads and calls what is registered with `atexit`. A program that catches the error, sets a hook
of its own later, or runs the call in a thread or a child process of its own, decides by itself.
"""

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from replicate.errors import (
    CheckpointError,
    ClusterError,
    ModelDirInUseError,
    NonFiniteError,
    WorkersDifferError,
)
from replicate.estimator.run_config import RunConfig
from replicate.roles import ALONE

_CODED = (CheckpointError, ClusterError, ModelDirInUseError, NonFiniteError, WorkersDifferError)
"""Errors of running tasks that have a code."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Hook: TypeAlias = Callable[[type[BaseException], BaseException, TracebackType | None], object]


class _Configured(Protocol):
    @property
    def config(self) -> RunConfig: ...


_E = TypeVar("_E", bound=_Configured)


def ends_task_by_code(
    function: Callable[Concatenate[_E, _P], _T],
) -> Callable[Concatenate[_E, _P], _T]:
    """Decorates a function of an Estimator: its errors end a task of a cluster with their codes."""

    @functools.wraps(function)
    def call(estimator: _E, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(estimator, *args, **kwargs)
        except _CODED:
            if estimator.config.cluster.role != ALONE and not isinstance(
                sys.excepthook, _ExitByCode
            ):
                sys.excepthook = _ExitByCode(sys.excepthook)
            raise

    return call


class _ExitByCode:
    """A `sys.excepthook` that ends the process with the code of an error."""

    def __init__(self, shown_by: _Hook):
        """Keeps the hook that shows errors."""
        self._show = shown_by

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Shows an error; an interactive interpreter goes on after it.

        Raises:
          SystemExit: The error has a code. Python then ends with it.
        """
        self._show(kind, error, trace)
        is_interactive = bool(sys.flags.interactive) or hasattr(sys, "ps1")
        if isinstance(error, _CODED) and not is_interactive:
            raise SystemExit(error.code)
