"""Trees of modules of Python 2, as the runner compiles them."""

import ast
import contextlib
import functools
import re
import sys

from replicate.compat.python2.keywords import without_new_keywords
from replicate.compat.python2.recognition import is_only_python3, sign_of_python2
from replicate.compat.python2.translation import (
    NotPython2Error,
    decoded,
    is_installed,
    renumber,
    translated,
)

MARK = "__python2__"
"""Name that a translated module binds: its imports look beside it first."""

_INSTALL = "pip install fissix"
_ABSOLUTE = re.compile(r"^\s*from __future__ import .*\babsolute_import\b", re.MULTILINE)


def tree_of(data: bytes, path: str, is_asked: bool = False) -> ast.Module:
    """Returns the tree of a module, translated if it is of Python 2.

    Args:
      data: The source.
      path: Its file.
      is_asked: True to translate it without a sign of Python 2, but not with one of Python 3.

    Raises:
      SyntaxError: It is no source of either Python, or it may be one of Python 2, and fissix is not
        installed.
    """
    try:
        tree = ast.parse(data, path)
    except SyntaxError as error:
        renamed = without_new_keywords(decoded(data))
        if renamed is not None:
            with contextlib.suppress(SyntaxError):
                return ast.parse(renamed, path)
        if not is_installed():
            error.msg += f" (if this is Python 2: {_INSTALL})"
            raise
        why = f"line {error.lineno}: {error.msg}"
        return _translated(data, path, why) or _raised(error)
    sign = sign_of_python2(tree, path)
    if sign is None and not is_asked:
        return tree
    if is_asked and is_only_python3(tree):
        return tree
    if not is_installed():
        _tell(f"{path} seems to be of Python 2 ({sign or 'as asked'}): {_INSTALL}.")
        return tree
    return _translated(data, path, sign or "") or tree


def _raised(error: SyntaxError) -> ast.Module:
    raise error


def _translated(data: bytes, path: str, why: str) -> ast.Module | None:
    """Returns the tree of the translation, None if the source is not of Python 2 either."""
    text = decoded(data)
    text = without_new_keywords(text) or text
    try:
        found = translated(text)
        tree = ast.parse(found.text, path)
    except (NotPython2Error, SyntaxError):
        return None
    if why:
        _tell(f"{path} is of Python 2 ({why}), and translated.")
    renumber(tree, found.lines)
    first = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    head: list[ast.stmt] = []
    if not _ABSOLUTE.search(text):
        mark = ast.Name(MARK, ast.Store())
        head.append(ast.Assign([mark], ast.Constant(True)))
    if found.helpers:
        names = [ast.alias(name) for name in found.helpers]
        head.append(ast.ImportFrom("replicate.compat.python2", names, 0))
    for node in head:
        ast.fix_missing_locations(ast.copy_location(node, first))
    place = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    tree.body[place:place] = head
    return tree


@functools.cache
def _tell(sentence: str) -> None:
    """Prints a sentence, once."""
    print(f"replicate.compat: {sentence}", file=sys.stderr)
