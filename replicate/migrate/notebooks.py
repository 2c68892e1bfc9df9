"""Notebooks: their code cells as one module, and back.

Cells are found in the module by their place, never by a mark in the text, so that no program can
contain one. Magics and commands of the shell are hidden from the parser as `pass`, and come back as
they were. A cell that is not Python stays as it is.
"""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

from replicate.migrate.source import Edit, moved, parse_python, position

_WALL = "#\n"
"""A line before each cell: an edit at the end of a cell is never one at the start of the next."""

_STAND_IN = "pass"
_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<code>[%!?].*|.*[^\s?#]\?{1,2}\s*|\w[\w, ]*=\s*[%!].*)$")
_INDENTS = (1, 2, 4, None)
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotebookError(ValueError):
    """A file that is not a notebook; the message says why."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A code cell that is Python, in the module of its notebook.

    Attributes:
      number: Its number among the code cells, from 1.
      start: First byte of its code in the module, right after its wall.
      end: The byte after its code and a newline.
      hidden: Lines that are not Python, by the first byte of what stands in for each.
    """

    number: int
    start: int
    end: int
    hidden: tuple[tuple[int, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Notebook:
    """A notebook, with its code as the text of a module.

    Attributes:
      raw: Text of the file.
      module: Code of all cells that are Python, with a wall before each.
      cells: These cells, in order.
      unreadable: Numbers of the code cells that cannot be read, from 1, and why.
    """

    raw: str
    module: str
    cells: tuple[Cell, ...]
    unreadable: dict[int, str]

    @property
    def walls(self) -> list[int]:
        """First bytes of the lines before the cells."""
        return [each.start - len(_WALL) for each in self.cells]

    def edited(self, module: str, edits: Sequence[Edit]) -> str:
        """Returns the text of the file with the code of its module after edits.

        Raises:
          NotebookError: An edit replaces a line that is not Python.
        """
        if module == self.module:
            return self.raw
        notebook = json.loads(self.raw)
        code_cells = _code_cells(notebook)
        data = module.encode()
        for each in (_moved_cell(cell, edits) for cell in self.cells):
            pieces, done = [], each.start
            for start, line in each.hidden:
                end = start + len(_STAND_IN)
                if data[start:end] != _STAND_IN.encode():
                    raise NotebookError(f"the line {line!r} of cell {each.number} is in a change")
                pieces += [data[done:start].decode(), line]
                done = end
            code = "".join([*pieces, data[done : each.end].decode()])
            _set_code(code_cells[each.number - 1], code.removesuffix("\n"))
        return _dumped(notebook, self.raw)

    def position(self, module: str, place: int, edits: Sequence[Edit]) -> tuple[int, int, int]:
        """Returns cell, line and column, all from 1, of a byte of the module after edits."""
        cells = [_moved_cell(each, edits) for each in self.cells]
        cell = max((each for each in cells if each.start <= place), key=lambda each: each.start)
        code = module.encode()[cell.start :].decode()
        return cell.number, *position(code, place - cell.start)


def _moved_cell(cell: Cell, edits: Sequence[Edit]) -> Cell:
    start = moved(cell.start - len(_WALL), edits) + len(_WALL)
    hidden = tuple((moved(place, edits), line) for place, line in cell.hidden)
    return Cell(cell.number, start, moved(cell.end, edits), hidden)


def read_notebook(raw: str) -> Notebook:
    """Reads a notebook.

    Raises:
      NotebookError: It is not a notebook of version 4.
      RecursionError: It is nested too deeply.
    """
    try:
        code_cells = _code_cells(json.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotebookError(f"it is no notebook of version 4: {error}") from None
    pieces: list[str] = []
    cells: list[Cell] = []
    unreadable = {}
    place = 0
    for number, cell in enumerate(code_cells, 1):
        try:
            code = _code(cell)
            if code.lstrip().startswith("%%"):
                continue
            code, hidden = _readable(code)
        except (SyntaxError, ValueError) as error:
            unreadable[number] = error.msg if isinstance(error, SyntaxError) else str(error)
            continue
        except (RecursionError, MemoryError):
            unreadable[number] = "it is nested too deeply"
            continue
        pieces.append(f"{_WALL}{code}\n")
        start, place = place + len(_WALL), place + len(pieces[-1].encode())
        in_module = tuple((start + offset, line) for offset, line in hidden)
        cells.append(Cell(number, start, place, in_module))
    return Notebook(raw, "".join(pieces), tuple(cells), unreadable)


def _readable(code: str) -> tuple[str, list[tuple[int, str]]]:
    """Returns code that is Python, and the lines that it hides, with the places of their stand-ins.

    Raises:
      SyntaxError: It is not Python without its magics, either.
      ValueError: It has characters that no program has.
    """
    try:
        parse_python(code)
    except SyntaxError:
        code, hidden = _hide(code)
        parse_python(code)
        return code, hidden
    return code, []


def _hide(code: str) -> tuple[str, list[tuple[int, str]]]:
    lines = code.split("\n")
    hidden: list[tuple[int, str]] = []
    place = 0
    for number, line in enumerate(lines):
        magic = _MAGIC.match(line)
        if magic is not None and not line.lstrip().startswith("#"):
            lines[number] = f"{magic['indent']}{_STAND_IN}"
            hidden.append((place + len(magic["indent"].encode()), magic["code"]))
        place += len(lines[number].encode()) + 1
    return "\n".join(lines), hidden


def _code_cells(notebook: Any) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _code(cell: dict[str, Any]) -> str:
    """Returns the code of a cell.

    Raises:
      ValueError: It is neither text nor a list of texts.
    """
    source = cell.get("source")
    lines = [source] if isinstance(source, str) else source
    if not (isinstance(lines, list) and all(isinstance(each, str) for each in lines)):
        raise ValueError(f"its source is {json.dumps(source)[:40]}, not text")
    return "".join(lines)


def _set_code(cell: dict[str, Any], code: str) -> None:
    if not _code(cell).endswith("\n"):
        code = code.rstrip("\n")
    if code != _code(cell):
        is_text = isinstance(cell["source"], str)
        cell["source"] = code if is_text else re.findall(r"[^\n]*\n|[^\n]+$", code)


def _dumped(notebook: Any, raw: str) -> str:
    """Returns JSON in the form of the old text."""
    end = raw[len(raw.rstrip()) :]
    old = json.loads(raw)
    for indent in _INDENTS:
        for ascii_only in (False, True):
            dump = json.JSONEncoder(indent=indent, ensure_ascii=ascii_only).encode
            if dump(old) + end == raw:
                return dump(notebook) + end
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    return (json.dumps(notebook, indent=1) if _SURROGATE.search(text) else text) + end
