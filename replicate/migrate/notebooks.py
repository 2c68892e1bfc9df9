"""Notebooks: their code cells as one module, and back.

Magics and commands of the shell are hidden from the parser as comments, and come back as they were.
So does a cell that is not Python.
"""

import ast
import dataclasses
import json
import re
from typing import Any

_MARK = "#@ cell "
_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<code>[%!?].*|.*[^\s?#]\?{1,2}\s*|\w[\w, ]*=\s*[%!].*)$")
_HIDDEN = "#@ line "
_INDENTS = (1, 2, 4, None)


class NotebookError(ValueError):
    """A file that is not a notebook; the message says why."""


@dataclasses.dataclass(frozen=True)
class Notebook:
    """A notebook, with its code as the text of a module.

    Attributes:
      raw: Text of the file.
      module: Code of all cells that are Python, with a mark before each.
      hidden: Lines that are not Python.
      unreadable: Numbers of the code cells that cannot be read, from 1, and why.
    """

    raw: str
    module: str
    hidden: tuple[str, ...]
    unreadable: dict[int, str]

    def with_module(self, module: str) -> str:
        """Returns the text of the file with other code, marked as in `module`, in its cells."""
        if module == self.module:
            return self.raw
        notebook = json.loads(self.raw)
        cells = _code_cells(notebook)
        for piece in re.split(rf"^{_MARK}", module, flags=re.MULTILINE)[1:]:
            number, _, code = piece.partition("\n")
            code = re.sub(rf"(pass  )?{_HIDDEN}(\d+)", lambda m: self.hidden[int(m[2])], code)
            _set_code(cells[int(number) - 1], code.removesuffix("\n"))
        return _dumped(notebook, self.raw)


def cell_line(module: str, line: int) -> tuple[int, int]:
    """Returns the number of a code cell and the line in it, both from 1, for a line of `module`."""
    lines = module.split("\n")[:line]
    last = max(number for number, each in enumerate(lines, 1) if each.startswith(_MARK))
    return int(lines[last - 1].removeprefix(_MARK)), line - last


def read_notebook(raw: str) -> Notebook:
    """Reads a notebook.

    Raises:
      NotebookError: It is not a notebook of version 4.
    """
    try:
        notebook = json.loads(raw)
        cells = _code_cells(notebook)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotebookError(f"it is no notebook of version 4: {error}") from None
    pieces: list[str] = []
    hidden: list[str] = []
    unreadable = {}
    for number, cell in enumerate(cells, 1):
        if _code(cell).lstrip().startswith("%%"):
            continue
        try:
            code, of_cell = _readable(_code(cell), len(hidden))
        except SyntaxError as error:
            unreadable[number] = error.msg
            continue
        hidden += of_cell
        pieces.append(f"{_MARK}{number}\n{code}\n")
    return Notebook(raw, "".join(pieces), tuple(hidden), unreadable)


def _readable(code: str, count: int) -> tuple[str, list[str]]:
    """Returns code that is Python, and the lines that it hides.

    Raises:
      SyntaxError: It is not Python without its magics, either.
    """
    try:
        _parse(code)
    except SyntaxError:
        code, hidden = _hide(code, count)
        _parse(code)
        return code, hidden
    return code, []


def _parse(code: str) -> None:
    compile(code, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _hide(code: str, count: int) -> tuple[str, list[str]]:
    lines = code.split("\n")
    hidden: list[str] = []
    for number, line in enumerate(lines):
        magic = _MAGIC.match(line)
        if magic is not None and not line.lstrip().startswith("#"):
            lines[number] = f"{magic['indent']}pass  {_HIDDEN}{count + len(hidden)}"
            hidden.append(magic["code"])
    return "\n".join(lines), hidden


def _code_cells(notebook: Any) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _code(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


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
    return json.dumps(notebook, indent=1, ensure_ascii=False) + end
