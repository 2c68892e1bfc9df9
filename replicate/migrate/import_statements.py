"""Edits of import statements, and of assignments such as `slim = tf.contrib.slim`.

Each name of a statement is replaced by another import, or dropped, or stays. New imports that the
module needs stand after the import through which the old name was found.
"""

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from replicate.migrate.bindings import Import, dotted, imported_by
from replicate.migrate.source import Edit, Source
from replicate.migrate.spelling import NewImport, real_name, statements_of

_WIDTH = 100


class ImportEdits:
    """Collects the fates of imported names, and makes the edits of their statements."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._new: dict[cst.CSTNode, dict[cst.CSTNode, NewImport | None]] = {}

    def replace(self, statement: cst.CSTNode, part: cst.CSTNode, new: NewImport) -> None:
        """Replaces a part of a statement, an imported name or a target, by an import."""
        self._new.setdefault(statement, {})[part] = new

    def drop(self, statement: cst.CSTNode, part: cst.CSTNode) -> None:
        """Drops the import of one name, or an assignment; the arguments are those of `replace`."""
        self._new.setdefault(statement, {})[part] = None

    def edits(self, needed: Mapping[Import, Sequence[NewImport]]) -> Iterator[Edit]:
        """Yields the edits. The needed imports are added after a statement each."""
        added: dict[cst.CSTNode, list[str]] = {
            each: sorted(statements_of(new), key=_plain_first) for each, new in needed.items()
        }
        gone = {each for each in self._new if not self._text(each) and each not in added}
        for statement in dict.fromkeys([*self._new, *added]):
            after = added.get(statement, [])
            if statement in gone:
                yield from self._removed(statement, gone)
            elif statement not in self._new:
                yield from self._added(statement, after)
            else:
                yield from self._replaced(statement, after)

    def _text(self, statement: cst.CSTNode) -> list[str]:
        """Returns the statements that take the place of one."""
        fates = self._new[statement]
        new = statements_of(each for each in fates.values() if each is not None)
        if not isinstance(statement, cst.Import | cst.ImportFrom):
            return new
        stay = [each for each in imported_by(statement) if each.alias not in fates]
        if not stay:
            return new
        names = ", ".join(self._source.text_of(each.alias).rstrip(", \n") for each in stay)
        head = "import"
        if isinstance(statement, cst.ImportFrom):
            head = f"from {dotted(statement.module)} import"
        first = stay[0].alias is next(imported_by(statement)).alias
        return [f"{head} {names}", *new] if first else [*new, f"{head} {names}"]

    def _replaced(self, statement: cst.CSTNode, after: Sequence[str]) -> Iterator[Edit]:
        module = self._new_module(statement)
        start, end = self._source.span(statement)
        if module is not None and isinstance(statement, cst.ImportFrom) and statement.module:
            yield Edit(*self._source.span(statement.module), module)
            yield from self._added(statement, after)
            return
        lines = self._text(statement)
        yield Edit(start, end, self._joined(statement, lines or after))
        yield from self._added(statement, after if lines else [])

    def _new_module(self, statement: cst.CSTNode) -> str | None:
        """Returns the module of a from-import all of whose names move there, by the same names."""
        if not isinstance(statement, cst.ImportFrom):
            return None
        modules = set()
        for each in imported_by(statement):
            new = self._new[statement].get(each.alias)
            parent, _, last = real_name(new.module).rpartition(".") if new is not None else [""] * 3
            modules.add(parent if last == each.name.rpartition(".")[2] else "")
        return modules.pop() or None if len(modules) == 1 else None

    def _added(self, statement: cst.CSTNode, lines: Sequence[str]) -> Iterator[Edit]:
        if not lines:
            return
        end = self._source.span(statement)[1]
        if self._is_alone(statement):
            end = self._source.end_of_line(end)
        yield Edit(end, end, self._joined(statement, ["", *lines]), counts=False)

    def _joined(self, statement: cst.CSTNode, lines: Sequence[str]) -> str:
        if not self._is_alone(statement):
            return "; ".join(lines)
        indent = self._source.indent_of(statement)
        newline = self._source.newline
        return f"{newline}{indent}".join(_wrapped(line, indent, newline) for line in lines)

    def _is_alone(self, statement: cst.CSTNode) -> bool:
        """Returns True if a statement has a line of its own."""
        line = self._source.line_of(statement)
        return line is not None and len(line.body) == 1

    def _removed(self, statement: cst.CSTNode, gone: set[cst.CSTNode]) -> Iterator[Edit]:
        line = self._source.line_of(statement)
        start, end = self._source.span(statement)
        if line is None or len(line.body) > 1 or self._empties_block(line, gone):
            yield Edit(start, end, "pass")
            return
        begin = self._source.start_of_line(start)
        after = self._source.after_line(end)
        for _ in range(min(self._blank_lines(after), self._blank_lines_before(begin))):
            after = self._source.after_line(after)
        yield Edit(begin, after, "")

    def _blank_lines(self, place: int) -> int:
        """Returns the number of blank lines from a line's begin on."""
        count = 0
        after = self._source.after_line(place)
        while after > place and not self._source.data[place:after].strip():
            place, after, count = after, self._source.after_line(after), count + 1
        return count

    def _blank_lines_before(self, place: int) -> int:
        """Returns the number of blank lines before a line; at the begin of the text, many."""
        lines = self._source.data[:place].decode().splitlines()
        while lines and not lines[-1].strip():
            lines.pop()
        kept = len(lines)
        total = len(self._source.data[:place].decode().splitlines())
        return total - kept if kept else len(self._source.data)

    def _empties_block(self, line: cst.SimpleStatementLine, gone: set[cst.CSTNode]) -> bool:
        """Returns True for the first line of a block that has nothing but dropped statements."""
        block = self._source.parents.get(line)
        if not isinstance(block, cst.IndentedBlock) or block.body[0] is not line:
            return False
        return all(
            isinstance(each, cst.SimpleStatementLine) and all(part in gone for part in each.body)
            for each in block.body
        )


def _wrapped(line: str, indent: str, newline: str) -> str:
    """Returns a statement, in parentheses over several lines if it is long."""
    head, found, names = line.partition(" import ")
    if len(indent) + len(line) <= _WIDTH or not found:
        return line
    each = "".join(f"{indent}    {name},{newline}" for name in names.split(", "))
    return f"{head} import ({newline}{each}{indent})"


def _plain_first(statement: str) -> tuple[bool, str]:
    return statement.startswith("from"), statement
