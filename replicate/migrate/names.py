"""Old names in the table: the replacement of a dotted name, or the advice if there is none.

Names are written as in the table: "tf" is TensorFlow 1, whatever a program calls it. This module
knows nothing of source code. It loads no TensorFlow, but for names of tensorflow/kfac.
"""

import dataclasses
import functools
import importlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from replicate.absent_names import HINTS
from replicate.compat.table import (
    CHANGED_PACKAGES,
    CONTRIB,
    ESTIMATOR,
    PRIVATE,
    PRIVATE_MODULES,
    TABLE,
    V1_DEFAULTS,
    Row,
    names_below,
    public_row,
)
from replicate.compat.table.libraries import ROOTS, replacement_of
from replicate.quiet_imports import quiet_stderr

_V1 = re.compile(r"tensorflow(\.compat\.v1)*(?=\.|$)")
_ESTIMATOR_OF_V2 = re.compile(
    r"(tensorflow(\.compat\.v1)*\.compat\.v2|tensorflow_estimator)\.estimator\b"
)
_PYTHON_ESTIMATOR = re.compile(r"tf\.python\.estimator\b")
_VIEWS = "replicate.compat.tf_contrib"
_UNKNOWN = "It has no counterpart here."


@dataclasses.dataclass(frozen=True)
class Place:
    """A dotted name of a program, as the table writes it.

    Attributes:
      path: The name, such as "tf.estimator.Estimator".
      is_v2: True for tf.compat.v2.estimator, whose defaults are those of TensorFlow 2.
    """

    path: str
    is_v2: bool = False

    @property
    def is_of_library(self) -> bool:
        """True for a name that Python or a library lost."""
        return self.path.partition(".")[0] in ROOTS


@dataclasses.dataclass(frozen=True)
class Found:
    """Entry of the table for a name.

    Attributes:
      old: The part of the name that is replaced, or that has no replacement.
      new: Its replacement, None if there is none.
      difference: As in the row.
      row: The row, None for a name that is nowhere.
    """

    old: str
    new: str | None
    difference: str
    row: Row | None


def place_of(name: str) -> Place | None:
    """Returns the name in the table's spelling, None if it is no old name."""
    if name.partition(".")[0] in ROOTS:
        return Place(name) if replacement_of(name) is not None else None
    of_v2 = _ESTIMATOR_OF_V2.match(name)
    if of_v2 is not None:
        return Place(f"{ESTIMATOR}{name[of_v2.end() :]}", is_v2=True)
    if name.split(".", maxsplit=1)[0] in ("tensorflow_estimator", "kfac"):
        return Place(name)
    found = _V1.match(name)
    if found is None or name[found.end() :].startswith(".compat.v2"):
        return None
    path = f"tf{name[found.end() :]}"
    return Place(_public(_PYTHON_ESTIMATOR.sub(PRIVATE, path)))


def _public(path: str) -> str:
    """Returns the name in a public package of tf.contrib for one in a private module of it."""
    parts = path.split(".")
    prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    if any(prefix in TABLE for prefix in prefixes):
        return path
    for prefix in prefixes:
        row = TABLE.get(f"{prefix}.*")
        if row is not None:
            is_public = row.new is not None and row.new.startswith("tf.contrib.")
            return _public(f"{row.new}{path[len(prefix) :]}") if is_public else path
    return path


def is_old_package(path: str) -> bool:
    """Returns True for a package whose names stand in the table, one by one."""
    row = _row(path)
    if (
        f"{path}.".startswith("tf.python.")
        or path in CHANGED_PACKAGES
        or (row is not None and row.new is not None)
    ):
        return False
    private = path.removeprefix(f"{PRIVATE}.")
    is_private = PRIVATE.startswith(f"{path}.") or path == PRIVATE or private in PRIVATE_MODULES
    return is_private or (path.startswith("tf.") and bool(names_below(path)))


def is_package(path: str) -> bool:
    """Returns True for a package of the table, whether its names move together or one by one."""
    row = TABLE.get(f"{path}.*")
    return is_old_package(path) or (row is not None and row.new is not None)


def look_up(place: Place) -> Found | None:
    """Returns the entry of a name; None if the table says nothing of it, or if it is a package."""
    path = place.path
    if place.is_of_library:
        old, new = replacement_of(path) or ("", None)
        return Found(old, new, "", None) if new is not None else None
    if is_old_package(path):
        return None
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in TABLE:
            return _entry(prefix, TABLE[prefix], parts[end:], place)
        if f"{prefix}.*" in TABLE:
            return _of_package(prefix, TABLE[f"{prefix}.*"], parts[end:], place)
    if parts[0] == "kfac":
        return _of_kfac(parts)
    return _of_private(parts) if path.startswith(PRIVATE) else _unknown(path)


def home_of(package: str) -> str | None:
    """Returns the module in which most replacements of a package's names stand, by the same names.

    Returns:
      None if there is none, or if they stand in TensorFlow or in `replicate` itself, where the
      name of each is short.
    """
    home = next((home for home, _ in _homes(package).most_common(1)), "")
    return None if home in ("", "replicate", "tf") or home.startswith("tf.") else home


def view_of(package: str) -> str | None:
    """Returns the module that has a package's names as the runner shows them, None if none has.

    Names without a replacement fail there when they are used, and not when they are imported.
    """
    parent, _, last = package.rpartition(".")
    return f"{_VIEWS}.{last}" if parent == CONTRIB else None


def is_complete(package: str) -> bool:
    """Returns True if the home of a package has all of its names that have a replacement."""
    return len(_homes(package)) == 1


def _homes(package: str) -> Counter[str]:
    if package == ESTIMATOR or package.startswith(PRIVATE):
        return Counter(["replicate.v1"])
    found = look_up(Place(package))
    if found is not None:
        return Counter([found.new] if found.new is not None else [])
    homes: Counter[str] = Counter()
    for name in names_below(package):
        found = look_up(Place(f"{package}.{name}"))
        if found is not None and found.new is not None:
            parent, _, last = found.new.rpartition(".")
            homes[parent if last == name else ""] += 1
    return homes


def _row(path: str) -> Row | None:
    return TABLE.get(path) or TABLE.get(f"{path}.*")


def _entry(old: str, row: Row, rest: list[str], place: Place) -> Found:
    """Returns the entry of a name that has a row of its own."""
    if row.new is None:
        return Found(old, None, row.difference, row)
    return _further(old, row.new, rest, place) or Found(
        old, _with_defaults(row.new, place), row.difference, row
    )


def _of_package(package: str, row: Row, rest: list[str], place: Place) -> Found:
    """Returns the entry of a name below a package that has one row for all of its names."""
    if row.new is None:
        return Found(place.path, None, row.difference, row)
    new = ".".join([row.new, *rest[:1]])
    return _further(package, row.new, rest, place) or Found(
        ".".join([package, *rest[:1]]), _with_defaults(new, place), row.difference, row
    )


def _further(old: str, new: str, rest: list[str], place: Place) -> Found | None:
    """Returns the entry of a replacement that is an old name itself."""
    if new.partition(".")[0] != "kfac" and not new.startswith("tf.contrib."):
        return None
    found = look_up(Place(".".join([new, *rest]), place.is_v2))
    return found and dataclasses.replace(found, old=f"{old}{found.old[len(new) :]}")


def _of_kfac(parts: list[str]) -> Found | None:
    """Returns the entry of a name of tensorflow/kfac, which `kfac` itself tells of."""
    for end in range(1, len(parts)):
        replacement = _kfac_names().get(".".join(parts[:end]), {}).get(parts[end])
        if replacement is not None:
            old = ".".join(parts[: end + 1])
            if re.fullmatch(r"kfac(\.\w+)+", replacement):
                return Found(old, replacement, "", None)
            return Found(old, None, f"Use {replacement}.", None)
    return None


@functools.cache
def _kfac_names() -> Mapping[str, Mapping[str, str]]:
    """Returns the replacements by modules; none if K-FAC cannot be loaded."""
    try:
        with quiet_stderr():
            table: Any = importlib.import_module("kfac.old_programs.table")
    except ImportError:
        return {}
    return table.GONE


def _of_private(parts: list[str]) -> Found:
    """Returns the entry of a name in a private module of tf.estimator."""
    end = next(end for end in range(len(parts), 0, -1) if is_old_package(".".join(parts[:end])))
    package, name = ".".join(parts[:end]), parts[end]
    row = public_row(name)
    old = f"{package}.{name}"
    if row is None or row.new is None:
        return Found(old, None, HINTS.get(name, _UNKNOWN), row)
    is_v2 = name.endswith("V2")
    return Found(old, _with_defaults(row.new, Place(old, is_v2)), row.difference, row)


def _unknown(path: str) -> Found | None:
    """Returns an entry without a replacement for a name that tf.estimator has not."""
    package, _, name = path.rpartition(".")
    while package and not is_old_package(package):
        package, _, name = package.rpartition(".")
    if not package or package == "tf":
        return None
    return Found(f"{package}.{name}", None, HINTS.get(name, _UNKNOWN), None)


def _with_defaults(new: str, place: Place) -> str:
    """Returns the name with the defaults of the program's TensorFlow: in `replicate.v1`, or not."""
    root, _, name = new.rpartition(".")
    if name not in V1_DEFAULTS or root not in ("replicate", "replicate.v1"):
        return new
    return f"replicate.{name}" if place.is_v2 else f"replicate.v1.{name}"
