"""Names that a module binds to modules and names of TensorFlow 1, and what expressions stand for.

`import tensorflow as tf`, `from tensorflow.contrib import slim`, `learn = tf.contrib.learn` and
imports inside of functions bind names. `Bindings` follows them.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import libcst as cst
from libcst import metadata

from replicate.migrate.names import Place, is_package, look_up, place_of
from replicate.migrate.source import Source
from replicate.migrate.tree import walk

Import = cst.Import | cst.ImportFrom


@dataclasses.dataclass(frozen=True)
class Imported:
    """One name that an import statement binds.

    Attributes:
      statement: The statement.
      alias: Its part for this name.
      name: Dotted name of what is imported, such as "tensorflow.contrib.slim".
      bound: The name that is bound: "slim"; or "tensorflow" for `import tensorflow.contrib`.
    """

    statement: Import
    alias: cst.ImportAlias
    name: str
    bound: str

    @property
    def binds_root(self) -> bool:
        """True for `import a.b`, which binds a."""
        is_dotted = isinstance(self.alias.name, cst.Attribute)
        return isinstance(self.statement, cst.Import) and is_dotted and self.alias.asname is None


@dataclasses.dataclass(frozen=True)
class Inherited:
    """A name that a star import of a module of the program binds.

    Attributes:
      name: Dotted name of what it stands for.
      statement: The star import.
    """

    name: str
    statement: Import


@dataclasses.dataclass(frozen=True)
class Meaning:
    """Meaning of an expression: the name that it stands for.

    Attributes:
      name: Dotted name by the modules' own names.
      origin: The import statement that it comes from.
      bindings: What binds the first name in the expression: parts of import statements, or
        targets of assignments.
      is_sure: False if the first name in the expression may also be bound to something else.
    """

    name: str
    origin: Import
    bindings: tuple[cst.CSTNode, ...]
    is_sure: bool = True

    @property
    def place(self) -> Place | None:
        """The name in the table's spelling, None if it is not an old one."""
        return place_of(self.name)


def dotted(node: cst.BaseExpression | None) -> str | None:
    """Returns the text of a name with dots, None for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        start = dotted(node.value)
        return None if start is None else f"{start}.{node.attr.value}"
    return None


class Bindings:
    """The imports of a module, and its names for them.

    Attributes:
      imports: All imported names, in the order of the text.
      modules: Dotted names of modules that may be imported; relative ones without their dots.
      stars: Star imports of old packages.
      own_stars: Star imports of all else, such as modules of the program.
      inherited: What those bind to names that the module itself binds to nothing.
      aliases: Assignments such as `slim = tf.contrib.slim`, which bind a package of TensorFlow 1,
        by their targets.
      bound: All names that the module binds anywhere, but by imports.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        nodes = sorted(
            (each for each in walk(source.module) if isinstance(each, Import | cst.Assign)),
            key=source.span,
        )
        imports = [each for each in nodes if isinstance(each, Import)]
        assigns = [each for each in nodes if isinstance(each, cst.Assign)]
        self.modules = frozenset(name for each in imports for name in _modules_of(each))
        self.stars = [each for each in imports if _is_old_star(each)]
        self.own_stars = [
            each
            for each in imports
            if isinstance(each, cst.ImportFrom)
            and isinstance(each.names, cst.ImportStar)
            and each not in self.stars
        ]
        self.inherited: Mapping[str, Inherited] = {}
        self.imports = [each for node in imports for each in imported_by(node)]
        self._imported: dict[Import, list[Imported]] = {}
        for each in self.imports:
            self._imported.setdefault(each.statement, []).append(each)
        self._values = {target: node.value for node in assigns for target in _simple_targets(node)}
        self.bound = _bound_names(source)
        self.aliases = {
            _simple_targets(node)[0]: node
            for node in assigns
            if len(node.targets) == 1 and _simple_targets(node) and self._is_package(node.value)
        }

    def meaning(self, node: cst.CSTNode, depth: int = 0) -> Meaning | None:
        """Returns what an expression stands for, None if it is not from an import."""
        if isinstance(node, cst.Attribute):
            of_value = self.meaning(node.value, depth)
            if of_value is None:
                return None
            return dataclasses.replace(of_value, name=f"{of_value.name}.{node.attr.value}")
        if not isinstance(node, cst.Name) or depth > 20:
            return None
        scope = self._source.scopes.get(node)
        found = [self._of_assignment(each, depth) for each in scope[node.value]] if scope else []
        if scope is not None and not found and node.value in self.inherited:
            inherited = self.inherited[node.value]
            return Meaning(inherited.name, inherited.statement, ())
        known = [each for each in found if each is not None]
        old = [each for each in known if each.place is not None] or known
        if not old:
            return None
        names = {None if each is None else each.name for each in found}
        first = min(old, key=lambda each: self._source.span(each.origin)[0])
        places = {None if each is None else each.place for each in found}
        return dataclasses.replace(
            first,
            bindings=tuple(binding for each in known for binding in each.bindings),
            is_sure=first.is_sure and (len(names) == 1 or places == {first.place}),
        )

    def exported(self) -> dict[str, str]:
        """Returns what the names stand for that a star import of this module gives."""
        if "__all__" in self.bound:
            return {}
        found = {
            each.bound: each.name.split(".")[0] if each.binds_root else each.name
            for each in self.imports
            if self._is_global(each.statement)
        }
        for target, statement in self.aliases.items():
            meaning = self.meaning(statement.value)
            if meaning is not None and self._is_global(statement):
                found[target.value] = meaning.name
        return {name: path for name, path in found.items() if not name.startswith("_")}

    def _is_global(self, statement: cst.CSTNode) -> bool:
        node = statement
        while node in self._source.parents:
            node = self._source.parents[node]
            if isinstance(node, cst.FunctionDef | cst.ClassDef):
                return False
        return True

    def _of_assignment(self, assignment: metadata.BaseAssignment, depth: int) -> Meaning | None:
        node = getattr(assignment, "node", None)
        if isinstance(node, cst.Import | cst.ImportFrom):
            for each in self._imported.get(node, ()):
                if each.bound == assignment.name:
                    name = each.name.split(".")[0] if each.binds_root else each.name
                    return Meaning(name, node, (each.alias,))
        if isinstance(node, cst.Name) and node in self._values:
            of_value = self.meaning(self._values[node], depth + 1)
            return of_value and dataclasses.replace(of_value, bindings=(node,))
        return None

    def _is_package(self, value: cst.BaseExpression) -> bool:
        found = self.meaning(value) if isinstance(value, cst.Attribute | cst.Name) else None
        place = found.place if found is not None else None
        return place is not None and is_package(place.path)


def imported_by(node: Import) -> Iterator[Imported]:
    """Yields the names that an import statement binds; none for relative and star imports."""
    if isinstance(node.names, cst.ImportStar):
        return
    module = ""
    if isinstance(node, cst.ImportFrom):
        if node.relative:
            return
        module = f"{dotted(node.module)}."
    for alias in node.names:
        name = dotted(alias.name) or ""
        local = alias.asname.name.value if alias.asname is not None else None  # type: ignore[union-attr]
        bound = local or (name if module else name.split(".")[0])
        yield Imported(node, alias, f"{module}{name}", bound)


def _modules_of(node: Import) -> Iterator[str]:
    module = dotted(node.module) if isinstance(node, cst.ImportFrom) else None
    if module is not None:
        yield module
    if not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            yield ".".join(filter(None, [module, dotted(alias.name)]))


def _is_old_star(node: Import) -> bool:
    if not (isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar)):
        return False
    module = None if node.relative else dotted(node.module)
    place = place_of(module) if module is not None else None
    return place is not None and (
        place.path == "tf" or is_package(place.path) or look_up(place) is not None
    )


def _simple_targets(node: cst.Assign) -> list[cst.Name]:
    targets = [each.target for each in node.targets]
    return [each for each in targets if isinstance(each, cst.Name)]


def _bound_names(source: Source) -> frozenset[str]:
    scopes = {scope for scope in source.scopes.values() if scope is not None}
    return frozenset(
        assignment.name
        for scope in scopes
        for assignment in scope.assignments
        if isinstance(assignment, metadata.Assignment)
        and not isinstance(assignment.node, cst.Import | cst.ImportFrom)
    )
