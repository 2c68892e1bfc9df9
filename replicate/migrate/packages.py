"""Names that a module binds to packages of TensorFlow 1: `slim`, `layers`, `estimator`.

Such a name may go on, bound to the module that has most of the package's names, or be dropped, if
each use of it is rewritten.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import libcst as cst

from replicate.migrate.bindings import Bindings
from replicate.migrate.names import home_of, is_package, place_of
from replicate.migrate.uses import Use


class Fate(enum.Enum):
    """Fate of a name that is bound to a package.

    Attributes:
      MOVES: It is bound to the package's new home.
      STAYS: It stays, since uses of it are left to the user.
      ENDS: Nothing needs it any more.
    """

    MOVES = enum.auto()
    STAYS = enum.auto()
    ENDS = enum.auto()


@dataclasses.dataclass(frozen=True)
class PackageName:
    """A name that is bound to a package.

    Attributes:
      path: The package, as in the table.
      home: The module that has its names, None if they are scattered.
      fate: Its fate.
    """

    path: str
    home: str | None
    fate: Fate

    def covers(self, use: Use) -> bool:
        """Returns True if the use stays as it is, because the home has the name."""
        return self.fate is Fate.MOVES and _is_at(self.home, self.path, use)


def package_names(bindings: Bindings, uses: Sequence[Use]) -> dict[cst.CSTNode, PackageName]:
    """Decides about all names that are bound to packages, other than TensorFlow itself.

    Returns:
      The names by what binds them: a part of an import statement, or the target of an assignment.
    """
    paths: dict[cst.CSTNode, str] = {}
    for each in bindings.imports:
        place = None if each.binds_root else place_of(each.name)
        if place is not None and place.path != "tf" and is_package(place.path):
            paths[each.alias] = place.path
    for target, statement in bindings.aliases.items():
        meaning = bindings.meaning(statement.value)
        place = meaning.place if meaning is not None else None
        if place is not None and place.path != "tf" and is_package(place.path):
            paths[target] = place.path
    return {node: _decided(path, _uses_of(node, uses)) for node, path in paths.items()}


def package_name_of(use: Use, names: Mapping[cst.CSTNode, PackageName]) -> PackageName | None:
    """Returns the bound package through which a use was found, if there is one."""
    return next((names[each] for each in use.meaning.bindings if each in names), None)


def _uses_of(node: cst.CSTNode, uses: Sequence[Use]) -> list[Use]:
    return [use for use in uses if node in use.meaning.bindings]


def _decided(path: str, uses: Sequence[Use]) -> PackageName:
    home = home_of(path) or None
    by_itself = [use for use in uses if use.place.path == path]
    absent = [use for use in uses if use.found is not None and use.found.new is None]
    unsure = [use for use in uses if not use.meaning.is_sure]
    at_home = [use for use in uses if _is_at(home, path, use)]
    if home is not None and (by_itself or unsure or at_home or not uses):
        fate = Fate.MOVES
    elif by_itself or unsure or absent:
        fate = Fate.STAYS
    else:
        fate = Fate.ENDS
    return PackageName(path, home, fate)


def _is_at(home: str | None, path: str, use: Use) -> bool:
    if use.found is None or use.found.new is None or home is None:
        return False
    new = use.found.new
    if home == "replicate.v1" and not use.place.is_v2:
        new = f"replicate.v1{new.removeprefix('replicate').removeprefix('.v1')}"
    return new == f"{home}{use.found.old[len(path) :]}"
