"""The rewriting of files: reads all of them, rewrites each, and tells what is left."""

import dataclasses
import difflib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from replicate.compat.python2.translation import is_installed
from replicate.migrate import tensorflow_names
from replicate.migrate.files import LARGEST_PROGRAM, Text, UnreadableFileError, read_text
from replicate.migrate.notebooks import Notebook, NotebookError, read_notebook
from replicate.migrate.program import Programs, first_lines
from replicate.migrate.python2 import in_python3
from replicate.migrate.rewrite import Left, changes_of
from replicate.migrate.source import Edit, UnreadableError, moved, position
from replicate.migrate.star_imports import inherited_names
from replicate.migrate.uses import Module

_NOT_PYTHON_3 = "It is not Python 3 ({why})."
_MAY_BE_PYTHON_2 = (
    "It is not Python 3 ({why}). If it is Python 2, this translates it with fissix: pip install "
    "fissix."
)
_V2_PROGRAM = "This is a program of TensorFlow 2, which stays as it is: TensorFlow 1 has no {name}."
_TOO_DEEP = "Its code or its cells are nested too deeply, and it stays as it is."
_FAULT = "replicate.migrate failed on it ({kind}), and it stays as it is: please report it."
_CELL = "The cell is not Python ({why}), and stays as it is."


@dataclasses.dataclass(frozen=True)
class Result:
    """A file, before and after, with the number of changes.

    What is left to the user is the place in the file, the old name, and the advice. Differences are
    those of the names that were replaced.
    """

    path: Path
    old: Text
    new: Text
    count: int = 0
    left: tuple[tuple[str, str, str], ...] = ()
    differences: dict[str, str] = dataclasses.field(default_factory=dict)

    def diff(self) -> Iterator[str]:
        """Yields the lines of a unified diff, as `patch -p0` takes them."""
        name = str(self.path)
        yield from difflib.unified_diff(_lines(self.old), _lines(self.new), name, name)


@dataclasses.dataclass(frozen=True)
class _File:
    """A file that was read, or what is left to the user since it cannot be read.

    The text of its module is its translation, if it was one of Python 2.
    """

    path: Path
    text: Text
    name: str
    module: Module | None = None
    notebook: Notebook | None = None
    left: tuple[tuple[str, str, str], ...] = ()
    translation: str = ""


def rewrite_files(
    paths: Sequence[Path], towers: bool = False, in_new: bool = False, python2: bool = False
) -> list[Result]:
    """Rewrites files of one program, without writing to them; returns their results in order.

    `towers` makes Estimators and optimizers work on several towers. `in_new` tells where things
    that are left stand in the new texts, not in the old ones. `python2` translates all modules from
    Python 2 that use nothing of Python 3 only, not just those that are recognized.
    """
    files = [_read(path, python2) for path in paths]
    modules = {each.name: each.module for each in files if each.module is not None}
    for name, inherited in inherited_names(modules).items():
        modules[name].inherit(inherited)
    programs = Programs(modules)
    methods = frozenset().union(*(each.functions for each in modules.values()))
    results = []
    for each in files:
        try:
            result = _rewritten(each, programs, methods, towers, in_new)
        except Exception as error:  # No file keeps the others from being rewritten.
            result = Result(each.path, each.text, each.text, left=_failed(error))
        results.append(result)
    return results


def _read(path: Path, python2: bool) -> _File:
    try:
        return _read_file(path, python2)
    except Exception as error:  # No file keeps the others from being read.
        return _File(path, Text("", "utf-8"), str(path), left=_failed(error))


def _failed(error: BaseException) -> tuple[tuple[str, str, str], ...]:
    """Returns what is left to the user since an error ended the work on a file."""
    if isinstance(error, NotebookError):
        return (("1:1", "", f"{error}."),)
    cause: BaseException | None = error
    while cause is not None:  # libcst turns too deep a nesting into other errors.
        if isinstance(cause, RecursionError | MemoryError):
            return (("1:1", "", _TOO_DEEP),)
        cause = cause.__context__
    return (("1:1", "", _FAULT.format(kind=type(error).__name__)),)


def _read_file(path: Path, python2: bool) -> _File:
    try:
        text = read_text(path)
    except UnreadableFileError as error:
        return _File(path, Text("", "utf-8"), str(path), left=(("1:1", "", f"{error}."),))
    parts = path.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    notebook, translation = None, ""
    try:
        if path.suffix == ".ipynb":
            notebook = read_notebook(text.text)
        new = in_python3(text.text, path, python2) if notebook is None else None
        translation = new or ""
        module = _module_of(notebook) if notebook else Module(new or text.text, (), bool(new))
    except NotebookError as error:
        return _File(path, text, name, left=(("1:1", "", f"{error}."),))
    except UnreadableError as error:
        where = f"{error.line}:{error.column}"
        told = _NOT_PYTHON_3 if is_installed() else _MAY_BE_PYTHON_2
        return _File(path, text, name, left=((where, "", told.format(why=error)),))
    cells = notebook.unreadable if notebook is not None else {}
    left = tuple((f"cell {each}", "", _CELL.format(why=why)) for each, why in cells.items())
    return _File(path, text, name, module, notebook, left, translation)


def _module_of(notebook: Notebook) -> Module:
    """Returns the module of a notebook.

    Raises:
      NotebookError: It has too much code.
    """
    if len(notebook.module) > LARGEST_PROGRAM:
        raise NotebookError(f"it has more than {LARGEST_PROGRAM / 2**20:.0f} MiB of code")
    return Module(notebook.module, notebook.walls)


def _rewritten(
    file: _File, programs: Programs, methods: frozenset[str], towers: bool, in_new: bool
) -> Result:
    module = file.module
    if module is None:
        return Result(file.path, file.text, file.text, left=file.left)
    old = module.source.data.decode()
    of_v2 = _name_of_v2(module)
    if of_v2 is not None:
        text = dataclasses.replace(file.text, text=file.translation or file.text.text)
        left_to_do = (_told(of_v2, old, file, ()),)
        return Result(file.path, file.text, text, _translated_lines(file), left=left_to_do)
    changes = changes_of(module, towers, methods)
    edits = list(changes.edits)
    needs = programs.needs(file.name, file.notebook is not None)
    edits += first_lines(module, needs, edits)
    new = module.source.edited(edits)
    left = tuple(
        _told(each, new, file, edits) if in_new else _told(each, old, file, ())
        for each in changes.left
    )
    return Result(
        file.path,
        file.text,
        dataclasses.replace(file.text, text=_text_of(file, new, edits)),
        sum(edit.counts for edit in edits) + _translated_lines(file),
        (*left, *file.left),
        changes.differences,
    )


def _translated_lines(file: _File) -> int:
    """Returns the number of places that the translation from Python 2 changed."""
    if not file.translation:
        return 0
    lines = file.text.text.splitlines(), file.translation.splitlines()
    matcher = difflib.SequenceMatcher(None, *lines, autojunk=False)
    return sum(tag != "equal" for tag, *_ in matcher.get_opcodes())


def _text_of(file: _File, module: str, edits: Sequence[Edit]) -> str:
    return module if file.notebook is None else file.notebook.edited(module, edits)


def _name_of_v2(module: Module) -> Left | None:
    """Returns the first name of TensorFlow 2 in a module without old names."""
    if module.has_old_names:
        return None
    for use in module.uses:
        name = use.place.path
        if not use.place.is_of_library and tensorflow_names.is_of_v2(name):
            start = module.source.span(use.node)[0]
            return Left(start, name, _V2_PROGRAM.format(name=name))
    return None


def _told(left: Left, text: str, file: _File, edits: Sequence[Edit]) -> tuple[str, str, str]:
    """Returns something left, with its place in the text of the module after edits."""
    place = moved(left.start, edits)
    if file.notebook is None:
        line, column = position(text, place)
        where = f"{line}:{column}"
    else:
        cell, line, column = file.notebook.position(text, place, edits)
        where = f"cell {cell}:{line}:{column}"
    return where, left.old, left.advice


def _lines(text: Text) -> list[str]:
    lines = io.StringIO(text.text, newline="\n").readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
