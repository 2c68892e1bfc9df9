"""Uses of old names in a module: expressions that stand for names of TensorFlow 1."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

import libcst as cst

from replicate.migrate.bindings import Bindings, Inherited, Meaning
from replicate.migrate.names import Found, Place, is_old_package, look_up
from replicate.migrate.source import Source
from replicate.migrate.tree import children, walk


@dataclasses.dataclass(frozen=True)
class Use:
    """A name, or a name with attributes, that stands for something of TensorFlow 1.

    Attributes:
      node: The whole expression.
      meaning: What it stands for.
      place: The same, as the table writes it.
      root: What its first name alone stands for.
      found: Its entry in the table, None if there is none.
    """

    node: cst.Attribute | cst.Name
    meaning: Meaning
    place: Place
    root: Place
    found: Found | None

    @property
    def is_package(self) -> bool:
        """True for a package of the table by itself, as in `learn = tf.contrib.learn`."""
        return self.found is None and is_old_package(self.place.path)

    @property
    def old_node(self) -> cst.Attribute | cst.Name:
        """The part of the expression that the table's entry is about."""
        node = self.node
        if self.found is not None:
            rest = self.place.path.count(".") - self.found.old.count(".")
            for _ in range(rest):
                if not isinstance(node, cst.Attribute):
                    break
                node = node.value  # type: ignore[assignment]
        return node

    @property
    def is_of_bound_name(self) -> bool:
        """True if the entry is about the first name, as in `MK.TRAIN` after an import of MK."""
        return self.found is not None and len(self.root.path) >= len(self.found.old)


def uses_in(source: Source, bindings: Bindings) -> list[Use]:
    """Returns the uses in a module, in the order of its text, without those of imports."""
    uses = _Uses(bindings)
    for _ in walk(source.module, uses.parts):
        pass
    return sorted(uses.found, key=lambda use: source.span(use.node))


class _Uses:
    """Collects uses on a walk."""

    def __init__(self, bindings: Bindings) -> None:
        self.found: list[Use] = []
        self._bindings = bindings

    def parts(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yields the parts of a node that may have uses, and notes that of a name."""
        if isinstance(node, cst.Name):
            self._add(node)
        elif isinstance(node, cst.Attribute):
            if not self._add(node):
                yield node.value
        elif isinstance(node, cst.Arg):
            yield node.value
        elif isinstance(node, cst.AssignTarget):
            if not isinstance(node.target, cst.Name):
                yield node.target
        elif not isinstance(node, cst.Import | cst.ImportFrom):
            yield from children(node)

    def _add(self, node: cst.Attribute | cst.Name) -> bool:
        """Notes the use that a name is; returns True if its parts are no uses of their own."""
        meaning = self._bindings.meaning(node)
        place = meaning.place if meaning is not None else None
        if meaning is None or place is None:
            return meaning is not None
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        first = self._bindings.meaning(root)
        of_first = first.place if first is not None else None
        if of_first is None and first is not None and place.is_of_library:
            of_first = Place(first.name)
        self.found.append(Use(node, meaning, place, of_first or place, look_up(place)))
        return True


class Module:
    """A module, with its uses of old names."""

    def __init__(self, text: str, walls: Iterable[int] = (), is_python2: bool = False) -> None:
        """Reads a module.

        Args:
          text: As for `Source`, whose errors this raises, too.
          walls: As for `Source`.
          is_python2: True for the translation of a module of Python 2.
        """
        self.is_python2 = is_python2
        self.source = Source(text, walls)
        self.bindings = Bindings(self.source)

    def inherit(self, names: Mapping[str, Inherited]) -> None:
        """Takes the names of star imports, before the uses are asked for."""
        self.bindings.inherited = names

    @functools.cached_property
    def uses(self) -> list[Use]:
        """The uses of old names, in the order of the text."""
        return uses_in(self.source, self.bindings)

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions and methods that it defines."""
        nodes = walk(self.source.module)
        return frozenset(each.name.value for each in nodes if isinstance(each, cst.FunctionDef))

    @property
    def has_old_names(self) -> bool:
        """True if it uses old names of TensorFlow, as opposed to those of other libraries."""
        return any(use.found and not use.place.is_of_library for use in self.uses)
