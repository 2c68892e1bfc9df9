"""The rewriting of files: reads all of them, rewrites each, and tells what is left."""

import dataclasses
import difflib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from replicate.migrate import tensorflow_names
from replicate.migrate.files import Text, UnreadableFileError, read_text
from replicate.migrate.notebooks import Notebook, NotebookError, cell_line, read_notebook
from replicate.migrate.program import Programs, first_lines
from replicate.migrate.rewrite import Left, changes_of
from replicate.migrate.source import UnreadableError, moved, position
from replicate.migrate.uses import Module

_NOT_PYTHON_3 = "It is not Python 3 ({why}): convert it first, with 2to3 for instance."
_V2_PROGRAM = "This is a program of TensorFlow 2, which stays as it is: TensorFlow 1 has no {name}."
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
    """A file that was read, or what is left to the user since it cannot be read."""

    path: Path
    text: Text
    name: str
    module: Module | None = None
    notebook: Notebook | None = None
    left: tuple[tuple[str, str, str], ...] = ()


def rewrite_files(
    paths: Sequence[Path], towers: bool = False, in_new: bool = False
) -> list[Result]:
    """Rewrites files of one program, without writing to them; returns their results in order.

    `towers` makes Estimators and optimizers work on several towers. `in_new` tells where things
    that are left stand in the new texts, not in the old ones.
    """
    files = [_read(path) for path in paths]
    programs = Programs({each.name: each.module for each in files if each.module is not None})
    return [_rewritten(each, programs, towers, in_new) for each in files]


def _read(path: Path) -> _File:
    parts = path.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    notebook = None
    try:
        text = read_text(path)
    except UnreadableFileError as error:
        return _File(path, Text("", "utf-8"), name, left=(("1:1", "", f"{error}."),))
    try:
        if path.suffix == ".ipynb":
            notebook = read_notebook(text.text)
        module = Module(text.text if notebook is None else notebook.module)
    except NotebookError as error:
        return _File(path, text, name, left=(("1:1", "", f"{error}."),))
    except UnreadableError as error:
        where = f"{error.line}:{error.column}"
        return _File(path, text, name, left=((where, "", _NOT_PYTHON_3.format(why=error)),))
    cells = notebook.unreadable if notebook is not None else {}
    left = tuple((f"cell {each}", "", _CELL.format(why=why)) for each, why in cells.items())
    return _File(path, text, name, module, notebook, left)


def _rewritten(file: _File, programs: Programs, towers: bool, in_new: bool) -> Result:
    module = file.module
    if module is None:
        return Result(file.path, file.text, file.text, left=file.left)
    old = module.source.data.decode()
    of_v2 = _name_of_v2(module)
    if of_v2 is not None:
        return Result(file.path, file.text, file.text, left=(_told(of_v2, of_v2.start, old, file),))
    changes = changes_of(module, towers)
    edits = list(changes.edits)
    needs = programs.needs(file.name, file.notebook is not None)
    edits += first_lines(module, needs, edits)
    new = module.source.edited(edits)
    left = tuple(
        _told(each, moved(each.start, edits), new, file)
        if in_new
        else _told(each, each.start, old, file)
        for each in changes.left
    )
    return Result(
        file.path,
        file.text,
        dataclasses.replace(file.text, text=_text_of(file, new)),
        sum(edit.counts for edit in edits),
        (*left, *file.left),
        changes.differences,
    )


def _text_of(file: _File, module: str) -> str:
    return module if file.notebook is None else file.notebook.with_module(module)


def _name_of_v2(module: Module) -> Left | None:
    """Returns the first name of TensorFlow 2 in a module without old names."""
    if any(use.found is not None for use in module.uses):
        return None
    for use in module.uses:
        name = use.place.path
        if tensorflow_names.is_of_v2(name):
            start = module.source.span(use.node)[0]
            return Left(start, name, _V2_PROGRAM.format(name=name))
    return None


def _told(left: Left, place: int, text: str, file: _File) -> tuple[str, str, str]:
    line, column = position(text, place)
    where = f"{line}:{column}"
    if file.notebook is not None:
        cell, of_cell = cell_line(text, line)
        where = f"cell {cell}:{of_cell}:{column}"
    return where, left.old, left.advice


def _lines(text: Text) -> list[str]:
    lines = io.StringIO(text.text, newline="\n").readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
