"""A module's source: its tree, where each node stands in the text, and edits of the text.

All other text stays as it is, byte for byte, since edits replace pieces of the text, and the tree
is never printed.
"""

import ast
import dataclasses
from collections.abc import Iterable
from typing import Any

import libcst as cst
from libcst import metadata


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

    def __init__(self, text: str) -> None:
        """Parses a text.

        Raises:
          UnreadableError: It is not the source of a module.
        """
        self.data = text.encode()
        try:
            wrapper = metadata.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except cst.ParserSyntaxError as error:
            raise _unreadable(text, error) from None
        self.module = wrapper.module
        self.newline = wrapper.module.default_newline
        resolved = wrapper.resolve_many(
            [
                metadata.ByteSpanPositionProvider,
                metadata.ParentNodeProvider,
                metadata.ScopeProvider,
            ]
        )
        self.parents: Any = resolved[metadata.ParentNodeProvider]
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

        A mark of a notebook's cell is no such comment.
        """
        begin = self.start_of_line(self.span(statement)[0])
        while begin > 0:
            above = self.start_of_line(begin - len(self.newline))
            line = self.data[above:begin].lstrip()
            if not line.startswith(b"#") or line.startswith((b"#@", b"#!")):
                break
            begin = above
        return begin

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


def _unreadable(text: str, error: cst.ParserSyntaxError) -> UnreadableError:
    try:
        ast.parse(text)
    except SyntaxError as of_python:
        told = (of_python.msg or "syntax error").rstrip(".")
        return UnreadableError(told, of_python.lineno or 1, of_python.offset or 1)
    except ValueError as of_python:  # Null bytes
        return UnreadableError(str(of_python), 1, 1)
    return UnreadableError("libcst cannot parse it", error.raw_line, error.raw_column + 1)
