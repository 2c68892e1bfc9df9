"""The translation of a module of Python 2 into Python 3, by fissix, with the lines that it had."""

import ast
import functools
import importlib
import importlib.util
import io
import logging
import tokenize
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from replicate.compat import python2

_FISSIX = (
    "apply",
    "basestring",
    "buffer",
    "dict",
    "except",
    "exec",
    "execfile",
    "filter",
    "funcattrs",
    "future",
    "getcwdu",
    "has_key",
    "imports",
    "imports2",
    "input",
    "itertools",
    "itertools_imports",
    "long",
    "map",
    "metaclass",
    "methodattrs",
    "ne",
    "next",
    "nonzero",
    "numliterals",
    "operator",
    "paren",
    "print",
    "raise",
    "raw_input",
    "renames",
    "repr",
    "standarderror",
    "sys_exc",
    "throw",
    "tuple_params",
    "types",
    "unicode",
    "urllib",
    "xrange",
    "xreadlines",
    "zip",
)
_FIXERS = "replicate.compat.python2.fixers"
_IMPLICIT = "fissix.fixes.fix_import"
HELPERS = tuple(python2.__all__)
"""Names of `replicate.compat.python2` that a translation may call."""


class NotPython2Error(ValueError):
    """A text is not of Python 2 either; the message says why."""


class Translation(NamedTuple):
    """A module in Python 3.

    Attributes:
      text: Its source, without the import of the helpers.
      lines: For each line of it, the line of the source that it stands for, from 1.
      helpers: Those of `HELPERS` that it calls.
    """

    text: str
    lines: tuple[int, ...]
    helpers: tuple[str, ...]


def is_installed() -> bool:
    """Returns True if fissix is installed."""
    return importlib.util.find_spec("fissix") is not None


def decoded(data: bytes) -> str:
    """Returns the text of a source, by its coding line or as UTF-8, with plain line ends.

    Raises:
      SyntaxError: Its coding line is wrong.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def translated(text: str, implicit_imports_in: str | None = None) -> Translation:
    """Translates the source of a module.

    Args:
      text: The source.
      implicit_imports_in: Path of the module if imports of modules beside it are to become
        relative imports.

    Raises:
      NotPython2Error: It is no source of Python 2.
    """
    whole = _with_blanks(text if text.endswith("\n") else f"{text}\n")
    tree = None
    for takes_print in (False, True):  # Modules for both Pythons call print.
        tool = _tool(takes_print, implicit_imports_in is not None, not takes_true_division(text))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = tool.refactor_string(whole, implicit_imports_in or "<module>")
            break
        except Exception as error:  # fissix has errors of several kinds for its input.
            trouble = str(error)
    if tree is None:
        raise NotPython2Error(trouble)
    result = str(tree)
    leaves = [leaf.value for leaf in tree.leaves()]
    names = {leaf for leaf, before in zip(leaves[1:], leaves, strict=False) if before != "."}
    helpers = tuple(name for name in HELPERS if name in {*names, *leaves[:1]})
    return Translation(result, _lines_of(tree), helpers)


def takes_true_division(text: str) -> bool:
    """Returns True for a module with `from __future__ import division`."""
    head = (line.strip() for line in text.splitlines())
    return any(line.startswith("from __future__") and "division" in line for line in head)


@functools.cache
def _tool(takes_print: bool, is_in_package: bool, divides: bool) -> Any:
    logging.getLogger("RefactoringTool").setLevel(logging.ERROR)
    for name in ("fissix.pgen2.driver", "fissix.pygram"):
        logging.getLogger(name).setLevel(logging.ERROR)
    refactor: Any = importlib.import_module("fissix.refactor")
    names = [f"fissix.fixes.fix_{name}" for name in _FISSIX]
    names += [_IMPLICIT] if is_in_package else []
    names += [f"{_FIXERS}.fix_division"] if divides else []
    names.append(f"{_FIXERS}.fix_old_functions")
    return refactor.RefactoringTool(names, {"print_function": takes_print})


def _lines_of(tree: Any) -> tuple[int, ...]:
    """Returns, for each line of the printed tree, the line that its first old leaf had."""
    lines: list[int] = []
    line, known = 1, 1
    old: dict[int, int] = {}
    for leaf in tree.leaves():
        line += leaf.prefix.count("\n")
        if leaf.lineno and leaf.value:
            old.setdefault(line, leaf.lineno)
        line += leaf.value.count("\n")
    for number in range(1, line + 1):
        known = max(old.get(number, known + (number > 1 and number not in old)), 1)
        lines.append(known)
    return tuple(lines)


def renumber(tree: ast.AST, lines: Sequence[int]) -> None:
    """Gives the nodes of a translation the lines of the source."""
    for node in ast.walk(tree):
        for name in ("lineno", "end_lineno"):
            number = getattr(node, name, None)
            if number is not None:
                setattr(node, name, lines[min(number, len(lines)) - 1])


def _with_blanks(text: str) -> str:
    """Returns a text with blanks for the tabs that indent its lines, eight to a tab as before."""
    if "\t" not in text:
        return text
    inside = _continued_lines(text)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        rest = line.lstrip(" \t\f")
        if number not in inside and rest is not line:
            head = line[: len(line) - len(rest)]
            lines[number] = f"{head.expandtabs(8)}{rest}"
    return "\n".join(lines)


def _continued_lines(text: str) -> frozenset[int]:
    """Returns the lines, from 0, that begin inside of a text in quotes."""
    tokens: Any = importlib.import_module("fissix.pgen2.tokenize")
    inside: set[int] = set()
    try:
        for kind, _, (first, _), (last, _), _ in tokens.generate_tokens(io.StringIO(text).readline):
            if kind == tokens.STRING:
                inside.update(range(first, last))
    except Exception:  # The text is wrong, as the parser tells.
        return frozenset(inside)
    return frozenset(inside)
