"""The first lines that a program of TensorFlow 1 needs on TensorFlow 2.

A program, as opposed to a module that it imports, calls `tf.disable_v2_behavior()`: graph mode,
reference variables and shapes are then those of TensorFlow 1. If it or a module of its own uses
Keras, it also chooses legacy Keras, before TensorFlow is imported.
"""

import dataclasses
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from replicate.migrate.bindings import dotted
from replicate.migrate.names import place_of
from replicate.migrate.source import Edit, Source
from replicate.migrate.uses import Module

_KERAS = re.compile(r"tf\.(keras|contrib\.keras)\b")
_SWITCH = "disable_v2_behavior"
_CHOICE = "TF_USE_LEGACY_KERAS"
_IMPORT = "import tensorflow.compat.v1 as tf"
_CHOICE_LINE = f'os.environ.setdefault("{_CHOICE}", "1")  # before TensorFlow is imported'


@dataclasses.dataclass(frozen=True)
class Needs:
    """First lines of a program: `tf.disable_v2_behavior()`, and the choice of legacy Keras."""

    switch: bool = False
    legacy_keras: bool = False


NOTHING = Needs()


class Programs:
    """Modules that belong together, and which of them are programs."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules
        tails: dict[str, list[str]] = {}
        for name in modules:
            parts = name.split(".")
            for start in range(len(parts)):
                tails.setdefault(".".join(parts[start:]), []).append(name)
        self._imports = {
            name: {own for each in module.bindings.modules for own in tails.get(each, ())} - {name}
            for name, module in modules.items()
        }
        imported = (self._imported_by(name, own) for name, own in self._imports.items())
        self._imported = frozenset().union(*imported)

    def needs(self, name: str, is_notebook: bool = False) -> Needs:
        """Returns the lines that a module needs. A notebook is always a program."""
        module = self._modules[name]
        if not (is_notebook or _is_program(module, name in self._imported)):
            return NOTHING
        parts = [self._modules[each] for each in self._reach(name)]
        if not any(_is_old(part) for part in parts):
            return NOTHING
        text = module.source.data.decode()
        return Needs(
            switch=_SWITCH not in text,
            legacy_keras=_CHOICE not in text and any(_uses_keras(part) for part in parts),
        )

    def _imported_by(self, name: str, own: set[str]) -> set[str]:
        """Returns those of the modules that one may import, by their last names, that it imports.

        Of several it is the one in the same folder: two folders may have a `train.py` each.
        """
        folder = name.rpartition(".")[0]
        beside = {f"{folder}.{each}".lstrip(".") for each in self._modules[name].bindings.modules}
        last = {each.rpartition(".")[2] for each in own & beside}
        return {each for each in own if each in beside or each.rpartition(".")[2] not in last}

    def _reach(self, name: str) -> set[str]:
        found = {name}
        left = [name]
        while left:
            new = self._imports[left.pop()] - found
            found |= new
            left += new
        return found


def first_lines(module: Module, needs: Needs, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Yields the edits that add the lines."""
    source = module.source
    imports = [each for each in source.module.body if _imports_of(each)]
    if needs.legacy_keras:
        yield _choice(module)
    if needs.switch:
        yield _switch(module, imports, edits)


def _choice(module: Module) -> Edit:
    """Returns the edit that chooses legacy Keras, below the first imports of Python's own."""
    source = module.source
    body = list(source.module.body)
    if body and _is_docstring(body[0]):
        del body[0]
    own = list(itertools.takewhile(_is_of_python, body))
    names = [each for each in module.bindings.imports if each.bound == each.name == "os"]
    has_os = any(source.line_of(each.statement) in own for each in names)
    lines = [*([] if has_os else ["import os"]), "", _CHOICE_LINE]
    if own and "__future__" not in _roots_of(own[-1]):
        place = source.after_line(source.span(own[-1])[1])
        if source.data[place : source.after_line(place)].strip():
            lines.append("")
    else:
        first = next(iter(body[len(own) :]), None)
        place = len(source.data) if first is None else source.with_comments(first)
        lines.append("")
    return Edit(place, place, "".join(f"{line}{source.newline}" for line in lines))


def _switch(module: Module, imports: Sequence[cst.CSTNode], edits: Sequence[Edit]) -> Edit:
    source = module.source
    of_tensorflow: dict[cst.CSTNode, str] = {
        each.statement: each.bound
        for each in module.bindings.imports
        if _path_of(each.name) == "tf"
    }
    body: list[cst.CSTNode] = list(source.module.body)
    first = next((each for each in imports if of_tensorflow.keys() & set(_imports_of(each))), None)
    if first is None:
        if not imports:
            return _switch_at_top(source)
        last = imports[-1]
        lines = [_IMPORT, "", f"tf.{_SWITCH}()"]
    else:
        number = body.index(first)
        while number + 1 < len(body) and (
            _imports_of(body[number + 1]) or _is_alias(body[number + 1], module)
        ):
            number += 1
        last = body[number]
        local = next(of_tensorflow[each] for each in _imports_of(first) if each in of_tensorflow)
        lines = ["", f"{local}.{_SWITCH}()"]
    place = source.after_line(source.span(last)[1])
    newline = source.newline
    after = source.data[place : source.after_line(place)]
    if after.strip():
        lines.append("")
    head = "" if source.data[:place].endswith((b"\n", b"\r")) else newline
    for edit in edits:
        if edit.start < place <= edit.end and not edit.text:
            place = edit.start
    return Edit(place, place, head + "".join(f"{line}{newline}" for line in lines))


def _switch_at_top(source: Source) -> Edit:
    """Returns the edit for a module whose imports are all inside of functions."""
    first = next((each for each in source.module.body if not _is_docstring(each)), None)
    place = len(source.data) if first is None else source.with_comments(first)
    lines = [_IMPORT, "", f"tf.{_SWITCH}()", ""]
    return Edit(place, place, "".join(f"{line}{source.newline}" for line in lines))


def _is_docstring(statement: cst.CSTNode) -> bool:
    is_line = isinstance(statement, cst.SimpleStatementLine)
    first = statement.body[0] if is_line else None  # type: ignore[attr-defined]
    return isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)


def _is_alias(statement: cst.CSTNode, module: Module) -> bool:
    """Returns True for `slim = tf.contrib.slim`, which becomes an import."""
    aliases = module.bindings.aliases.values()
    is_line = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
    return is_line and any(statement.body[0] is each for each in aliases)  # type: ignore[attr-defined]


def _path_of(name: str) -> str:
    place = place_of(name)
    return place.path if place is not None else ""


def _imports_of(statement: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    parts = [each for each in statement.body if isinstance(each, cst.Import | cst.ImportFrom)]
    return parts if len(parts) == len(statement.body) else []


def _is_of_python(statement: cst.CSTNode) -> bool:
    """Returns True for a line of imports from the standard library."""
    roots = _roots_of(statement)
    return bool(roots) and all(root in sys.stdlib_module_names for root in roots)


def _roots_of(statement: cst.CSTNode) -> list[str]:
    """Returns the first parts of the modules that a line of imports names."""
    return [root for each in _imports_of(statement) for root in _roots(each)]


def _roots(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    if isinstance(node, cst.ImportFrom):
        yield "" if node.relative else (dotted(node.module) or "").split(".")[0]
    else:
        yield from ((dotted(each.name) or "").split(".")[0] for each in node.names)


def _is_old(module: Module) -> bool:
    """Returns True if a module is written for TensorFlow 1."""
    is_plain = any(
        each.name.split(".")[0] == "tensorflow" and ".compat" not in each.name
        for each in module.bindings.imports
    )
    return is_plain or bool(module.bindings.stars) or module.has_old_names


def _uses_keras(module: Module) -> bool:
    paths = [use.place.path for use in module.uses]
    paths += [_path_of(each.name) for each in module.bindings.imports]
    return any(_KERAS.match(path) for path in paths)


def _is_program(module: Module, is_imported: bool) -> bool:
    return any(
        _is_main_guard(each) or (not is_imported and _does_something(each))
        for each in module.source.module.body
    )


def _is_main_guard(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.If) and isinstance(statement.test, cst.Comparison)):
        return False
    left = statement.test.left
    right = statement.test.comparisons[0].comparator
    return any(isinstance(each, cst.Name) and each.value == "__name__" for each in (left, right))


def _does_something(statement: cst.CSTNode) -> bool:
    """Returns True for a call, a loop or a `with` at the top, other than settings and flags."""
    if isinstance(statement, cst.For | cst.With | cst.While):
        return True
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    calls = [each.value for each in statement.body if isinstance(each, cst.Expr)]
    called = [dotted(call.func) or "call" for call in calls if isinstance(call, cst.Call)]
    return any(
        not re.search(r"\b(flags|logging|warnings|DEFINE_\w+|path)\b", each) for each in called
    )
