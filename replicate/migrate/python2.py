"""Programs of Python 2, as Python 3 reads them: translated before their old names are rewritten."""

import ast
import contextlib
import os
from pathlib import Path

from replicate.compat.python2.keywords import without_new_keywords
from replicate.compat.python2.recognition import is_only_python3, sign_of_python2
from replicate.compat.python2.translation import NotPython2Error, is_installed, translated

_HELPERS = "from replicate.compat.python2 import {names}"


def in_python3(text: str, path: Path, is_asked: bool) -> str | None:
    """Returns the text of a module in Python 3, or None if it is to stay.

    Args:
      text: The text, with its own line ends.
      path: Its file: modules beside one of a package become relative imports.
      is_asked: True to translate it without a sign of Python 2, but not with one of Python 3.
    """
    tree = _tree(text)
    if tree is None:
        renamed = without_new_keywords(text)
        if renamed is not None and _tree(renamed) is not None:
            return renamed
    elif not (is_asked and not is_only_python3(tree)) and not sign_of_python2(tree, str(path)):
        return None
    return _translated(text, path) if is_installed() else None


def _tree(text: str) -> ast.Module | None:
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.parse(text)
    return None


def _translated(text: str, path: Path) -> str | None:
    newline = "\r\n" if "\r\n" in text else "\n"
    source = text.replace("\r\n", "\n")
    is_in_package = os.path.exists(path.parent / "__init__.py")
    try:
        found = translated(
            without_new_keywords(source) or source, str(path) if is_in_package else None
        )
    except NotPython2Error:
        return None
    tree = _tree(found.text)
    if tree is None:
        return None
    new = found.text if text.endswith("\n") else found.text.removesuffix("\n")
    if found.helpers:
        lines = new.split("\n")
        place = _first_line(tree)
        lines.insert(place - 1, _HELPERS.format(names=", ".join(found.helpers)))
        new = "\n".join(lines)
    return new.replace("\n", newline)


def _first_line(tree: ast.Module) -> int:
    """Returns the line of the first statement after the docstring of a module."""
    is_documented = ast.get_docstring(tree, clean=False) is not None
    rest = tree.body[1:] if is_documented else tree.body
    if not rest:
        return (tree.body[-1].end_lineno or 0) + 1 if tree.body else 1
    first = rest[0]
    decorators = getattr(first, "decorator_list", [])
    return min([first.lineno, *(each.lineno for each in decorators)])
