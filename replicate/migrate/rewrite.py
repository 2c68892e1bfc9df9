"""Rewriting of one module: old names, their imports, and arguments of calls.

The steps in order: the names that are bound to packages are decided; each import and each use is
spelled anew, stays, or is left to the user; the import statements follow from that.
"""

import dataclasses
import functools
from collections.abc import Sequence

import libcst as cst

from replicate.compat.table.libraries import CHANGED
from replicate.migrate.bindings import Imported
from replicate.migrate.import_statements import ImportEdits
from replicate.migrate.library_calls import is_call_of_today, modes_of_today
from replicate.migrate.names import Found, home_of, is_complete, look_up, place_of, view_of
from replicate.migrate.old_attributes import OldAttributes
from replicate.migrate.packages import Fate, PackageName, package_name_of, package_names
from replicate.migrate.source import Edit, Source
from replicate.migrate.spelling import Speller
from replicate.migrate.tensorflow_names import missing, missing_replacement
from replicate.migrate.towers import WRAP_BY_HAND, Towers
from replicate.migrate.uses import Module, Use

_AMBIGUOUS = "This name is bound in several ways here. Write {new} where it is the old one."
_SCATTERED = "Its names are in several modules now: write those that you use, one by one."
_STARS = "It takes its arguments in another order now, and is called with a star: write keywords."
_STAR_IMPORT = "A star import hides which names are used: import the names one by one."
_READ_BY_HAND = (
    "Python or a library dropped it: import old_attribute from "
    "replicate.compat.old_libraries.attributes, and read it by that."
)
_REAL = frozenset(("compiler", "core", "lite", "python", "security", "tools", "tsl"))


@dataclasses.dataclass(frozen=True, order=True)
class Left:
    """Something left to the user: first byte of an old name in the old text, and what to write."""

    start: int
    old: str
    advice: str


@dataclasses.dataclass(frozen=True)
class Changes:
    """Edits of a module, what is left to the user in order, and differences of replaced names."""

    edits: tuple[Edit, ...]
    left: tuple[Left, ...]
    differences: dict[str, str]


def changes_of(
    module: Module, towers: bool = False, methods: frozenset[str] = frozenset()
) -> Changes:
    """Returns what to change in a module.

    Args:
      module: The module.
      towers: True to make it train on several towers.
      methods: Names of functions that other modules of the program define.
    """
    return _Rewriting(module).changes(towers, methods)


class _Rewriting:
    """Rewriting of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._source = module.source
        self._packages = package_names(module.bindings, module.uses)
        ended = {
            each.bound
            for each in module.bindings.imports
            if each.alias in self._packages and self._packages[each.alias].fate is not Fate.STAYS
        }
        self._speller = Speller(module.source, module.bindings, ended)
        self._imports = ImportEdits(module.source)
        self._edits: list[Edit] = []
        self._left: list[Left] = []
        self._differences: dict[str, str] = {}

    def changes(self, towers: bool, methods: frozenset[str]) -> Changes:
        for each in self._module.bindings.imports:
            self._rewrite_import(each)
        for target, statement in self._module.bindings.aliases.items():
            if target in self._packages:
                self._move_package(statement, target, target.value)
        for use in self._module.uses:
            self._rewrite_use(use)
        for star in self._module.bindings.stars:
            self._leave(star, self._source.text_of(star), _STAR_IMPORT)
        if towers:
            self._replicate(Towers(self._module))
        self._write_attributes(methods)
        self._edits += modes_of_today(self._module)
        edits = [*self._edits, *self._imports.edits(self._speller.needed)]
        left = tuple(sorted(dict.fromkeys(self._left)))
        return Changes(tuple(edits), left, self._differences)

    def _replicate(self, towers: Towers) -> None:
        self._edits += towers.edits(self._speller)
        for call in towers.by_hand:
            self._leave(call, self._source.text_of(call.func), WRAP_BY_HAND)

    def _write_attributes(self, methods: frozenset[str]) -> None:
        spell = functools.partial(self._speller.spell, origin=None)
        attributes = OldAttributes(self._module, self._edits, methods, spell)
        self._edits += attributes.edits
        for node in attributes.by_hand:
            self._leave(node, node.attr.value, _READ_BY_HAND)

    def _rewrite_import(self, each: Imported) -> None:
        place = place_of(each.name)
        if place is None:
            return
        found = look_up(place)
        if each.alias in self._packages:
            self._move_package(each.statement, each.alias, each.bound)
        elif each.binds_root:
            self._rewrite_dotted_import(each, found)
        elif found is not None and found.new is None:
            self._leave(each.alias, found.old, found.difference)
        elif found is not None and not self._serves(each):
            new = f"{found.new}{place.path[len(found.old) :]}"
            wrong = missing_replacement(new)
            if wrong is not None:
                self._leave(each.alias, place.path, wrong)
            else:
                self._replace_import(each, new)
                self._note(found)
        elif each.name.startswith("tensorflow"):
            self._rewrite_tensorflow_import(each, place.path)

    def _serves(self, each: Imported) -> bool:
        """Returns True for an imported function that changed, and whose uses are all of today."""
        uses = [use for use in self._module.uses if each.alias in use.meaning.bindings]
        return each.name in CHANGED and all(is_call_of_today(self._module, use) for use in uses)

    def _move_package(self, statement: cst.CSTNode, part: cst.CSTNode, bound: str) -> None:
        name = self._packages[part]
        if name.fate is Fate.MOVES and name.home is not None:
            new = self._speller.import_as(statement, name.home, bound)
            self._imports.replace(statement, part, new)
        elif name.fate is Fate.ENDS:
            self._imports.drop(statement, part)
        else:
            view = view_of(name.path)
            if view is not None:
                new = self._speller.import_as(statement, view, bound)
                self._imports.replace(statement, part, new)
            self._leave(part, name.path, _SCATTERED)

    def _replace_import(self, each: Imported, new: str) -> None:
        moved = self._speller.import_as(each.statement, new, each.bound)
        self._imports.replace(each.statement, each.alias, moved)

    def _rewrite_tensorflow_import(self, each: Imported, path: str) -> None:
        """Rewrites an import of TensorFlow, or of a part that the table does not have."""
        part = path.split(".")[1:2]
        wrong = missing(path)
        if wrong is not None:
            self._leave(each.alias, path, wrong)
        elif not _REAL.intersection(part) and not each.name.startswith("tensorflow.compat"):
            self._replace_import(each, path)

    def _rewrite_dotted_import(self, each: Imported, found: Found | None) -> None:
        """Rewrites `import tensorflow.contrib.slim`, which binds tensorflow."""
        parts = each.name.split(".")
        if parts[0] == "kfac":
            if found is not None:
                self._replace_import(each, "kfac")
        elif parts[0] == "tensorflow" and parts[1] not in _REAL and parts[1] != "compat":
            self._replace_import(each, "tf")

    def _rewrite_use(self, use: Use) -> None:
        self._call_layer(use)
        if self._is_moved_alias(use) or self._is_kept(use):
            return
        if is_call_of_today(self._module, use):
            return
        name = package_name_of(use, self._packages)
        if use.found is None:
            self._rewrite_other(use, name)
        elif use.found.new is None:
            if not use.is_of_bound_name or isinstance(use.node, cst.Attribute):
                self._leave(use.old_node, use.found.old, use.found.difference)
        elif (wrong := missing_replacement(use.found.new)) is not None:
            self._leave(use.old_node, use.found.old, wrong)
        elif name is None and use.is_of_bound_name:
            self._give_keywords(use)
        elif name is not None and name.covers(use):
            self._note(use.found)
            self._give_keywords(use)
        elif not use.meaning.is_sure:
            self._leave(use.old_node, use.found.old, _AMBIGUOUS.format(new=use.found.new))
        else:
            self._respell(use.old_node, use, use.found.new)
            self._note(use.found)
            self._give_keywords(use)

    def _rewrite_other(self, use: Use, name: PackageName | None) -> None:
        """Rewrites the use of a package by itself, or checks that of a name of TensorFlow."""
        path = use.place.path
        if not use.is_package:
            wrong = missing(path) if path.startswith("tf.") else None
            if wrong is not None:
                self._leave(use.node, path, wrong)
        elif name is not None and name.path == path:
            if name.fate is Fate.MOVES and not is_complete(path):
                self._leave(use.node, path, _SCATTERED)
        else:
            home = home_of(path) if is_complete(path) else None
            if home is None:
                self._leave(use.node, path, _SCATTERED)
            else:
                self._respell(use.node, use, home)

    def _is_moved_alias(self, use: Use) -> bool:
        """Returns True for the value of `slim = tf.contrib.slim`, which is decided as a whole."""
        aliases = self._module.bindings.aliases
        return any(
            use.node is statement.value and target in self._packages
            for target, statement in aliases.items()
        )

    def _call_layer(self, use: Use) -> None:
        """Rewrites `tf.keras.layers.Dense(3).apply(x)`: layers of Keras are called."""
        made = self._source.parents.get(use.node)
        method = self._source.parents.get(made) if isinstance(made, cst.Call) else None
        if (
            use.place.path.startswith("tf.keras.layers.")
            and isinstance(method, cst.Attribute)
            and method.attr.value == "apply"
            and isinstance(self._source.parents.get(method), cst.Call)
        ):
            self._edits.append(Edit(self._source.span(made)[1], self._source.span(method)[1], ""))

    def _is_kept(self, use: Use) -> bool:
        """Returns True for the use of a name that works as it did, but for some of its calls."""
        row = use.found.row if use.found is not None else None
        if row is None or row.kept_up_to is None or use.is_of_bound_name:
            return False
        call = self._source.parents.get(use.node)
        if not isinstance(call, cst.Call) or call.func is not use.node:
            return True
        return sum(arg.keyword is None for arg in call.args) <= row.kept_up_to

    def _respell(self, node: cst.CSTNode, use: Use, new: str) -> None:
        text = self._speller.spell(new, use.meaning.origin)
        self._edits.append(Edit(*self._source.span(node), text))

    def _give_keywords(self, use: Use) -> None:
        call = self._source.parents.get(use.node)
        row = use.found.row if use.found is not None else None
        is_called = (
            isinstance(call, cst.Call) and call.func is use.node and use.old_node is use.node
        )
        if row is None or not row.keywords or not isinstance(call, cst.Call) or not is_called:
            return
        edits = keyword_edits(self._source, call, row.keywords)
        if edits is None:
            self._leave(use.node, use.place.path, _STARS)
        else:
            self._edits += edits

    def _leave(self, node: cst.CSTNode, old: str, advice: str) -> None:
        self._left.append(Left(self._source.span(node)[0], old, advice))

    def _note(self, found: Found) -> None:
        if found.difference:
            self._differences[found.old] = found.difference


def keyword_edits(
    source: Source, call: cst.Call, keywords: Sequence[tuple[str, str]]
) -> list[Edit] | None:
    """Returns the edits that give an old call its new keywords, None if it has star arguments."""
    renamed = dict(keywords)
    order = [new for _, new in keywords]
    edits = []
    for number, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            new = renamed.get(arg.keyword.value, arg.keyword.value)
            if new != arg.keyword.value:
                edits.append(Edit(*source.span(arg.keyword), new, counts=False))
        elif number < len(order):
            start = source.span(arg)[0]
            edits.append(Edit(start, start, f"{order[number]}=", counts=False))
    return edits
