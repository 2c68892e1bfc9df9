"""Docstrings for Sphinx: code in them is marked as in Markdown, and Sphinx reads reStructuredText.

Single backticks become double ones, also before a letter, as in `Tensor`s. Fenced blocks become
literal blocks, and the numbers of papers on arXiv become links. All else is as Google's style has
it, which `sphinx.ext.napoleon` reads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)(\w?)")
FENCE = re.compile(r"^( *)```\w*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
ARXIV = re.compile(r"\barXiv[:\s]\s*(\d{4}\.\d{4,5})\b")


def with_code(text: str) -> str:
    """Returns the text with code and papers marked as in reStructuredText."""
    marked = CODE.sub(lambda found: f"``{found[1]}``" + (found[2] and rf"\ {found[2]}"), text)
    return ARXIV.sub(r"`arXiv:\1 <https://arxiv.org/abs/\1>`__", marked)


def translated(text: str) -> str:
    """Returns a docstring with code and code blocks marked as in reStructuredText."""
    parts, end = [], 0
    for block in FENCE.finditer(text):
        indented = "\n".join(f"    {line}" for line in block[2].splitlines())
        parts += [with_code(text[end : block.start()]), f"{block[1]}::\n\n{indented}\n"]
        end = block.end()
    return "".join([*parts, with_code(text[end:])])


def process(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Translates the lines of a docstring in place."""
    lines[:] = translated("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the translation, before that of Google's style."""
    app.connect("autodoc-process-docstring", process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
