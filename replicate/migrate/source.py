"""A module's source: its tree, where each node stands in the text, and edits of the text.

All other text stays as it is, byte for byte, since edits replace pieces of the text, and the tree
is never printed.
"""

import ast
import dataclasses
import warnings
from collections.abc import Iterable
from typing import Any

import libcst as cst
from libcst import metadata

from replicate.migrate.tree import parents_in

_DEEPEST = 300
"""Levels of a tree: libcst's visitors take three frames of Python's 1,000 for each, and its parser
crashes the process at some thousands."""


class UnreadableError(ValueError):
    """Source that is not of this Python: `line` and `column` say where."""

    def __init__(self, text: str, line: int, column: int) -> None:
        """Keeps the position, both from 1."""
        super().__init__(text)
        self.line = line
        self.column = column


@dataclasses.dataclass(frozen=True)
class Edit:
    """A piece of text to replace.

    Attributes:
      start: First byte, in UTF-8.
      end: The byte after the last one; start for an insertion.
      text: The new text.
      counts: False for a part of another change, which the summary does not count.
    """

    start: int
    end: int
    text: str
    counts: bool = True


class Source:
    """A parsed module: its text in UTF-8, its tree, and the end of its lines."""

    def __init__(self, text: str, walls: Iterable[int] = ()) -> None:
        """Parses a text.

        Args:
          text: The text.
          walls: First bytes of comment lines that separate parts of the module.

        Raises:
          UnreadableError: It is not the source of a module.
          RecursionError: It is nested too deeply.
        """
        _check_python(text)
        self.data = text.encode()
        self._walls = frozenset(walls)
        try:
            wrapper = metadata.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except cst.ParserSyntaxError as error:
            told = "libcst cannot parse it"
            raise UnreadableError(told, error.raw_line, error.raw_column + 1) from None
        self.module = wrapper.module
        self.newline = wrapper.module.default_newline
        resolved = wrapper.resolve_many(
            [
                metadata.ByteSpanPositionProvider,
                metadata.ScopeProvider,
            ]
        )
        self.parents: Any = parents_in(self.module)
        self.scopes: Any = resolved[metadata.ScopeProvider]
        self._spans: Any = resolved[metadata.ByteSpanPositionProvider]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Returns the first byte of a node, and the one after its last."""
        span = self._spans[node]
        return span.start, span.start + span.length

    def text_of(self, node: cst.CSTNode) -> str:
        """Returns the text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def line_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Returns the line of statements that a small statement is in."""
        line = self.parents.get(node)
        return line if isinstance(line, cst.SimpleStatementLine) else None

    def indent_of(self, node: cst.CSTNode) -> str:
        """Returns the white space before the line of a statement."""
        start = self.span(node)[0]
        head = self.data[self.start_of_line(start) : start].decode()
        return head[: len(head) - len(head.lstrip())]

    def with_comments(self, statement: cst.CSTNode) -> int:
        """Returns the first byte of a statement's line, or of the comments right above it.

        Comments at the top of the module, or of a part of it, are its header: license, coding,
        form of a cell. They stay above.
        """
        line = begin = self.start_of_line(self.span(statement)[0])
        while begin > 0 and begin not in self._walls:
            above = self.start_of_line(begin - len(self.newline))
            if not self.data[above:begin].lstrip().startswith(b"#"):
                return begin
            begin = above
        return line

    def start_of_line(self, place: int) -> int:
        """Returns the first byte of the line of a byte."""
        return max(self.data.rfind(b"\n", 0, place), self.data.rfind(b"\r", 0, place)) + 1

    def end_of_line(self, place: int) -> int:
        """Returns the end of the line of a byte, where its newline stands."""
        ends = [
            found
            for found in (self.data.find(each, place) for each in (b"\r", b"\n"))
            if found >= 0
        ]
        return min(ends, default=len(self.data))

    def after_line(self, place: int) -> int:
        """Returns the first byte of the next line."""
        end = self.end_of_line(place)
        return end + (2 if self.data[end : end + 2] == b"\r\n" else min(1, len(self.data) - end))

    def edited(self, edits: Iterable[Edit]) -> str:
        """Returns the text with edits, none of which overlap.

        Insertions at one place come in the order in which they are given.
        """
        pieces = []
        done = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < done:
                raise ValueError(f"{edit} overlaps with one that ends at {done}.")
            pieces += [self.data[done : edit.start], edit.text.encode()]
            done = edit.end
        return b"".join([*pieces, self.data[done:]]).decode()


def position(text: str, place: int) -> tuple[int, int]:
    """Returns line and column, both from 1, of a byte of a text in UTF-8."""
    before = text.encode()[:place].decode()
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


def moved(place: int, edits: Iterable[Edit]) -> int:
    """Returns where a byte of the old text is after edits that do not replace it."""
    before = (edit for edit in edits if edit.end <= place)
    return place + sum(len(edit.text.encode()) - (edit.end - edit.start) for edit in before)


def parse_python(text: str) -> None:
    """Checks that a text is Python, with `await` at its top, and not nested too deeply.

    Raises:
      SyntaxError: It is not Python.
      ValueError: It has characters that no program has.
      RecursionError: It is nested too deeply.
      MemoryError: The same, told by Python's parser.
    """
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of escapes in the user's strings.
        tree = compile(text, "program", "exec", flags, dont_inherit=True)
    left: list[tuple[ast.AST, int]] = [(tree, 0)]
    while left:
        node, depth = left.pop()
        if isinstance(node, ast.BoolOp):  # libcst nests what `and` joins.
            depth += len(node.values)
        if depth > _DEEPEST:
            raise RecursionError(f"more than {_DEEPEST} levels")
        left += [(each, depth + 1) for each in ast.iter_child_nodes(node)]


def _check_python(text: str) -> None:
    """Raises UnreadableError if a text is not Python; RecursionError if it is nested too deeply."""
    try:
        parse_python(text)
    except SyntaxError as error:
        told = (error.msg or "syntax error").rstrip(".")
        raise UnreadableError(told, error.lineno or 1, error.offset or 1) from None
    except ValueError as error:  # Null bytes, or half of a surrogate pair.
        raise UnreadableError(str(error), 1, 1) from None
    except MemoryError:
        raise RecursionError("Python's parser gave up") from None
