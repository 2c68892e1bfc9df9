"""Spelling of new names in a module: its expression, and the import that it needs."""

import dataclasses
from collections.abc import Iterable

import libcst as cst

from replicate.migrate.bindings import Bindings, Import
from replicate.migrate.source import Source

_CONTRIB = "replicate.compat.contrib"
_LAYERS = "replicate.compat.layers"
_ATTRIBUTES = "replicate.compat.old_libraries.attributes."
_PACKAGES = ("sklearn.", "urllib.")
"""Packages whose import does not import their modules."""
_V1 = "tensorflow.compat.v1"
_MODULES = {"tf": "tf", "tf_slim": "slim", _CONTRIB: "contrib"}


@dataclasses.dataclass(frozen=True)
class NewImport:
    """An import statement that a new name needs.

    Attributes:
      module: Dotted name of what it imports; "tf" is tensorflow.compat.v1.
      local: The name that it binds.
    """

    module: str
    local: str

    def __str__(self) -> str:
        """Returns the statement."""
        module = real_name(self.module)
        parent, _, last = module.rpartition(".")
        if parent and self.module != "tf":
            end = "" if last == self.local else f" as {self.local}"
            return f"from {parent} import {last}{end}"
        return f"import {module}" if module == self.local else f"import {module} as {self.local}"


def real_name(name: str) -> str:
    """Returns a name of the table by the modules' own names."""
    return f"{_V1}{name[2:]}" if name == "tf" or name.startswith("tf.") else name


class Speller:
    """Spells new names so that they fit the other names of a module.

    Attributes:
      needed: The imports to add to the scope of each import statement, by that statement.
    """

    def __init__(self, source: Source, bindings: Bindings, ended: Iterable[str] = ()) -> None:
        """Reads the imports that are there, without the names that those bind that have ended."""
        self.needed: dict[Import, list[NewImport]] = {}
        self._source = source
        self._first_import = next(
            (e.statement for e in bindings.imports if self._scope(e.statement) is source.module),
            None,
        )
        self._taken = set(bindings.bound)
        self._known: dict[tuple[cst.CSTNode, str], str] = {}
        gone = frozenset(ended)
        self._names = {e.bound: e.name for e in bindings.imports if e.bound not in gone}
        for each in bindings.imports:
            name = each.name.split(".")[0] if each.binds_root else each.name
            module = "tf" if name in ("tensorflow", _V1) else name
            self._known.setdefault((self._scope(each.statement), module), each.bound)
        for bound, inherited in bindings.inherited.items():
            if inherited.name in ("tensorflow", _V1):
                self._known.setdefault((source.module, "tf"), bound)

    def import_as(self, statement: cst.CSTNode, new: str, bound: str) -> NewImport:
        """Returns the import that takes the place of a statement, whose names uses may take."""
        self._known[self._scope(statement), new] = bound
        return NewImport(new, bound)

    def spell(self, new: str, origin: Import | None) -> str:
        """Returns the expression for a new name, and notes the import that it needs.

        Args:
          new: The name as in the table.
          origin: The import statement through which the old name was found. None for a name of the
            module's own: the import stands after the module's first one.
        """
        root, _, of_builtins = new.partition(".")
        if root == "builtins" and of_builtins.partition(".")[0] not in self._taken:
            return of_builtins
        origin = origin or self._first_import
        if origin is None:
            raise ValueError(f"{new} needs an import, and the module has none.")
        module, rest = _split(new)
        scope = self._scope(origin)
        local = self._known.get((scope, module)) or self._known.get((self._source.module, module))
        if local is None:
            local = self._free_name(module)
            self._known[scope, module] = local
            self.needed.setdefault(self._first(origin), []).append(NewImport(module, local))
        return f"{local}{rest}"

    def _first(self, origin: Import) -> Import:
        """Returns the import statement of the same scope that has new ones already."""
        scope = self._scope(origin)
        return next((each for each in self.needed if self._scope(each) == scope), origin)

    def _scope(self, node: cst.CSTNode) -> cst.CSTNode:
        while node in self._source.parents and not isinstance(node, cst.FunctionDef | cst.ClassDef):
            node = self._source.parents[node]
        return node

    def _free_name(self, module: str) -> str:
        usual = _MODULES.get(module, module.rpartition(".")[2])
        for name in (usual, f"{usual}_", f"{module.replace('.', '_')}_"):
            if name not in self._taken and self._names.get(name, module) in (
                module,
                real_name(module),
            ):
                self._taken.add(name)
                return name
        raise ValueError(f"no name is free for {module}")


def _split(new: str) -> tuple[str, str]:
    """Returns the module of a new name that a program imports, and the rest with its dot."""
    parts = new.split(".")
    if f"{new}.".startswith((f"{_CONTRIB}.", f"{_LAYERS}.")):
        end = 3
    elif new.startswith(_ATTRIBUTES):
        end = 5
    elif new.startswith(_PACKAGES):
        end = 2
    elif new.startswith("replicate.compat."):
        end = 4
    else:
        end = 1
    return ".".join(parts[:end]), "".join(f".{part}" for part in parts[end:])


def statements_of(imports: Iterable[NewImport]) -> list[str]:
    """Returns import statements, with one for all names of a module."""
    names: dict[str, list[str]] = {}
    for each in imports:
        head, found, name = str(each).partition(" import ")
        of_head = names.setdefault(f"{head} import" if found else head, [])
        if found and name not in of_head:
            of_head.append(name)
    return [f"{head} {', '.join(of_head)}".rstrip() for head, of_head in names.items()]
