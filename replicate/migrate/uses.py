"""Uses of old names in a module: expressions that stand for names of TensorFlow 1."""

import dataclasses
from collections.abc import Iterable

import libcst as cst

from replicate.migrate.bindings import Bindings, Meaning
from replicate.migrate.names import Found, Place, is_old_package, look_up
from replicate.migrate.source import Source


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
    visitor = _Uses(bindings)
    source.module.visit(visitor)
    return visitor.found


class _Uses(cst.CSTVisitor):
    """Collects uses."""

    def __init__(self, bindings: Bindings) -> None:
        super().__init__()
        self.found: list[Use] = []
        self._bindings = bindings

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:  # noqa: N802
        return not isinstance(node.target, cst.Name)

    def visit_Arg(self, node: cst.Arg) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        if not self._add(node):
            node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        self._add(node)

    def _add(self, node: cst.Attribute | cst.Name) -> bool:
        meaning = self._bindings.meaning(node)
        place = meaning.place if meaning is not None else None
        if meaning is None or place is None:
            return meaning is not None
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        first = self._bindings.meaning(root)
        of_first = first.place if first is not None else None
        if of_first is None and first is not None and place.is_of_friend:
            of_first = Place(first.name)
        self.found.append(Use(node, meaning, place, of_first or place, look_up(place)))
        return True


class Module:
    """A module, with its uses of old names."""

    def __init__(self, text: str, walls: Iterable[int] = ()) -> None:
        """Reads a module; arguments and errors as for `Source`."""
        self.source = Source(text, walls)
        self.bindings = Bindings(self.source)
        self.uses = uses_in(self.source, self.bindings)

    @property
    def has_old_names(self) -> bool:
        """True if it uses old names of TensorFlow, as opposed to those of its friends."""
        return any(use.found and not use.place.is_of_friend for use in self.uses)
