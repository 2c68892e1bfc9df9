"""Names that a module of a program gets by star imports of other modules of it.

`from model import *` binds `tf` if model.py imports TensorFlow by that name.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from replicate.migrate.bindings import Inherited, dotted
from replicate.migrate.uses import Module


def inherited_names(modules: Mapping[str, Module]) -> dict[str, dict[str, Inherited]]:
    """Returns for each module the names that it inherits, by the modules' dotted names."""
    tails: dict[str, list[str]] = {}
    for name in modules:
        parts = name.split(".")
        for start in range(len(parts)):
            tails.setdefault(".".join(parts[start:]), []).append(name)
    stars = {
        name: [
            (statement, own)
            for statement in module.bindings.own_stars
            for own in _sources(name, statement, tails)
        ]
        for name, module in modules.items()
    }
    return {
        name: {
            bound: Inherited(path, statement)
            for statement, own in of_module
            for bound, path in _exported(own, modules, stars, frozenset({name})).items()
        }
        for name, of_module in stars.items()
    }


_Stars = Mapping[str, list[tuple[cst.ImportFrom, str]]]


def _exported(
    name: str, modules: Mapping[str, Module], stars: _Stars, seen: frozenset[str]
) -> dict[str, str]:
    """Returns what a module binds by imports, and by star imports of its own."""
    if name in seen:
        return {}
    found: dict[str, str] = {}
    for _, own in stars[name]:
        found.update(_exported(own, modules, stars, seen | {name}))
    bindings = modules[name].bindings
    found = {bound: path for bound, path in found.items() if bound not in bindings.bound}
    found.update(bindings.exported())
    return found


def _sources(name: str, statement: cst.ImportFrom, tails: Mapping[str, list[str]]) -> Iterator[str]:
    """Yields the module that a star import names: the one beside it, or the only one."""
    imported = dotted(statement.module) if statement.module is not None else ""
    folder = name.split(".")[: -len(statement.relative) or -1]
    beside = ".".join([*folder, *filter(None, [imported])])
    found = tails.get(imported or beside, [])
    if beside in found or beside in tails.get(beside, ()):
        yield beside
    elif len(found) == 1 and not statement.relative:
        yield found[0]
