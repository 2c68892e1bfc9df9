"""The runner: a program of TensorFlow 1 in this process, as `python PROGRAM` ran it.

The program's own modules (`own_files.py`) see TensorFlow 1 (`tf1_view.py`), and so do the packages
that are named. Before TensorFlow is loaded, the runner chooses legacy Keras if tf-keras is
installed. TensorFlow is loaded in silence, unless TF_CPP_MIN_LOG_LEVEL is set. After that the
runner adds `tf.estimator`, switches TensorFlow's behavior of version 2 off and keeps log lines from
doubling (`log_lines.py`). `child.py` does the same in processes that the
program starts by multiprocessing, `python_command.py` in those that it starts as `python PROGRAM`.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, NoReturn

from replicate.compat.absent import OldNameError
from replicate.compat.installation import install, install_program, translate_python2
from replicate.compat.log_lines import print_lines_once
from replicate.compat.own_files import is_own_file, is_own_module
from replicate.compat.python_command import python_runs_programs
from replicate.compat.source_code import compiled, is_python2
from replicate.compat.tf1_view import TF2, view_builtins
from replicate.exit_codes import ExitCode
from replicate.quiet_imports import quiet_stderr
from replicate.tower.default_towers import DefaultTowers, TowersInForce, default_towers

CHILD = "REPLICATE_COMPAT_CHILD"
"""Environment variable that tells child processes which program they belong to, as JSON."""

_HERE = os.path.dirname(__file__)
_V1_MODULE = re.compile(r"tensorflow\..*compat\.v1\.(?P<path>.+)")


class Program(NamedTuple):
    """A program to run, with the arguments of `run`."""

    name: str
    is_module: bool = False
    packages: tuple[str, ...] = ()
    num_towers: int | None = None
    devices: tuple[str, ...] = ()
    python2: bool = False


class _Code(NamedTuple):
    """A program that was read. Its relative imports start from `package`, "" if it is in none."""

    code: types.CodeType
    path: str
    package: str


class _MainSpec(importlib.machinery.ModuleSpec):
    """Spec of the program's `__main__`: child processes import `child.py` in its place."""

    def __init__(self, package: str) -> None:
        super().__init__("replicate.compat.child", None)
        self._package = package

    @property
    def parent(self) -> str:
        """Package of the program, for its relative imports."""
        return self._package


def run(
    program: str,
    *arguments: str,
    module: bool = False,
    packages: Sequence[str] = (),
    num_towers: int | None = None,
    devices: Sequence[str] = (),
    python2: bool = False,
) -> None:
    """Runs a program of TensorFlow 1, in this process.

    In a notebook call it before TensorFlow is imported, so that legacy Keras can be chosen.

    Args:
      program: Path of the file, or name of the module.
      *arguments: What the program finds in `sys.argv` after its name.
      module: True if `program` is the name of a module, as for `python -m`.
      packages: Installed packages that see TensorFlow 1, as the program's own modules do.
      num_towers: Number of towers that each Estimator of the program trains on: the first GPUs, or
        the CPU for all where there is no GPU. None leaves that to the program.
      devices: Device of each tower instead, such as ["/gpu:0", "/gpu:1"].
      python2: True to translate the program's modules from Python 2, whatever they look like. A
        program whose own file is recognized is translated as a whole, too.

    Raises:
      ValueError: num_towers is below 1, or both num_towers and devices are given.
      SystemExit: The program ends by itself, or with code 2: it cannot be found, or uses a name
        that is not here.
    """
    asked = Program(program, module, tuple(packages), num_towers, tuple(devices), python2)
    with _program_in_place(asked, arguments) as (main, code), towers_of(asked):
        try:
            exec(code, vars(main))  # noqa: S102  # It is the user's program.
        except OldNameError as error:
            refuse(str(error))
        except AttributeError as error:
            if _is_of_tensorflow2(error):
                refuse(f"{error} ({_line_of(error)}). {TF2}")
            raise


@contextmanager
def towers_of(program: Program) -> Iterator[None]:
    """Gives a program the towers that were asked for, and tells at its end if none was used.

    Raises:
      ValueError: Their number is below 1, or both number and devices are given.
    """
    if program.num_towers is None and not program.devices:
        yield
        return
    with default_towers(DefaultTowers(program.num_towers, program.devices)) as given:
        try:
            yield
        except SystemExit as end:
            if end.code in (None, 0):
                _tell_unused(given)
            raise
        _tell_unused(given)


def _tell_unused(given: TowersInForce) -> None:
    if not given.are_used:
        count = given.towers.count
        asked = f"num_towers={count}" if count else f"devices={','.join(given.towers.devices)}"
        print(
            f"replicate.compat: nothing was replicated: {asked} is for Estimators, and none "
            "trained in this process.",
            file=sys.stderr,
        )


def own_traceback(tb: types.TracebackType | None) -> types.TracebackType | None:
    """Returns a traceback without the frames of this package and of imports."""
    if tb is None:
        return None
    rest = own_traceback(tb.tb_next)
    file = tb.tb_frame.f_code.co_filename
    if os.path.dirname(file) == _HERE or file.startswith("<frozen "):
        return rest
    tb.tb_next = rest
    return tb


def prepare(program: Program) -> _Code:
    """Makes a program's modules see TensorFlow 1, and reads the program."""
    owns_packages = frozenset(program.packages)

    def owns(name: str, origin: str) -> bool:
        return name.partition(".")[0] in owns_packages or is_own_module(name, origin)

    if "tensorflow" not in sys.modules and importlib.util.find_spec("tf_keras") is not None:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    install_program(owns, _on_tensorflow, _loading)
    if program.python2:
        translate_python2()
    code = _code_of(program)
    if is_python2(code.code):
        translate_python2()
    return code


def refuse(trouble: str) -> NoReturn:
    """Ends the process with one sentence and the code for bad input.

    Raises:
      SystemExit: Always.
    """
    print(f"replicate.compat: {trouble}", file=sys.stderr)
    raise SystemExit(ExitCode.BAD_INPUT)


def _loading() -> AbstractContextManager[None]:
    """Hides what TensorFlow prints while it is loaded, unless somebody has set its log level."""
    return nullcontext() if "TF_CPP_MIN_LOG_LEVEL" in os.environ else quiet_stderr()


def _on_tensorflow() -> None:
    install()
    v1: Any = importlib.import_module("tensorflow").compat.v1
    logger = v1.get_logger()
    level = logger.level  # Not its verbosity: that of a logger without a level is root's, for now.
    logger.setLevel(v1.logging.ERROR)  # It warns of its own deprecation.
    v1.disable_v2_behavior()
    logger.setLevel(level)
    print_lines_once(logger)


def _code_of(program: Program) -> _Code:
    if not program.is_module:
        if not os.path.isfile(program.name):
            refuse(f"there is no file {program.name!r}.")
        path = os.path.abspath(program.name)
        with open(path, "rb") as file:
            return _Code(compiled(file.read(), path, program.python2), path, "")
    spec = _spec_of(program.name)
    loader = spec.loader
    code = loader.get_code(spec.name) if isinstance(loader, importlib.abc.InspectLoader) else None
    if code is None or spec.origin is None:
        refuse(f"the module {program.name!r} has no source.")
    return _Code(code, spec.origin, spec.parent or "")


def _spec_of(name: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        spec = None
    if spec is None:
        refuse(f"there is no module {name!r} that can be run.")
    return spec


@contextmanager
def _program_in_place(
    program: Program, arguments: Sequence[str]
) -> Iterator[tuple[types.ModuleType, types.CodeType]]:
    """Makes the program `__main__`, with its arguments, folder and children."""
    earlier = sys.modules["__main__"], list(sys.argv), list(sys.path), os.environ.get(CHILD)
    try:
        if not getattr(sys.flags, "safe_path", False):  # Python 3.11 has it.
            script = os.path.dirname(os.path.realpath(program.name))
            sys.path.insert(0, os.getcwd() if program.is_module else script)
        code = prepare(program)
        sys.argv[:] = [code.path if program.is_module else program.name, *arguments]
        lasting = program.name if program.is_module else code.path
        told = os.environ[CHILD] = json.dumps(program._replace(name=lasting)._asdict())
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        fill_main(main, code)
        with python_runs_programs(CHILD, told):
            yield main, code.code
    finally:
        sys.modules["__main__"], sys.argv[:], sys.path[:], child = earlier
        if child is None:
            os.environ.pop(CHILD, None)
        else:
            os.environ[CHILD] = child


def fill_main(main: types.ModuleType, code: _Code) -> None:
    """Sets what a program finds in its own module."""
    vars(main).update(
        __builtins__=view_builtins(),
        __file__=code.path,
        __package__=code.package if code.package else None,
        __spec__=_MainSpec(code.package),
        __cached__=None,
    )


def _line_of(error: BaseException) -> str:
    tb = own_traceback(error.__traceback__)
    last = "unknown line"
    while tb is not None:
        if is_own_file(tb.tb_frame.f_code.co_filename):
            last = f"{tb.tb_frame.f_code.co_filename}:{tb.tb_lineno}"
        tb = tb.tb_next
    return last


def _is_of_tensorflow2(error: AttributeError) -> bool:
    """Returns True if an attribute is missing that TensorFlow 2 has."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None or error.obj is None or error.name is None:
        return False
    if isinstance(error.obj, tensorflow.Tensor):
        return error.name == "numpy"
    found = _V1_MODULE.fullmatch(getattr(error.obj, "__name__", None) or "")
    value: Any = tensorflow
    for name in found["path"].split(".") if found is not None else ():
        value = getattr(value, name, None)
    return found is not None and hasattr(value, error.name)
