"""The table of old names: for each name of TensorFlow 1 its replacement, and the difference.

Pure data, without TensorFlow. `old_modules.py` reads it to make the old modules, and the guides
list its names. A row has one of three forms:

- a name with a replacement: `Row("tf.estimator.Estimator", "replicate.Estimator")`;
- a name without one, whose advice is the text of the error when it is used;
- a package, whose names all stand in the replacement: `Row("tf.contrib.kfac.*", "kfac")`.

A name that TensorFlow has, too, as in the module `changed`, gives way to its replacement.

`tf.estimator` stands for `tf.compat.v1.estimator`, too. There `replicate.v1` takes the place of
`replicate`, with the default loss of TensorFlow 1.

Rows of one package of TensorFlow 1 stand in a module of this folder.
"""

import functools
import types
from collections.abc import Mapping

from replicate.compat.table import (
    changed,
    contrib,
    contrib_learn,
    contrib_sequence,
    contrib_slim,
    contrib_tools,
    estimator,
    layers,
    private,
    tensorflow_python,
)
from replicate.compat.table.estimator import V1_DEFAULTS
from replicate.compat.table.private import PRIVATE_MODULES
from replicate.compat.table.row import CONTRIB, ESTIMATOR, MISSING, PRIVATE, Row

__all__ = [
    "CHANGED_PACKAGES",
    "CONTRIB",
    "ESTIMATOR",
    "MISSING",
    "PRIVATE",
    "PRIVATE_MODULES",
    "PUBLIC_OF_PRIVATE",
    "TABLE",
    "V1_DEFAULTS",
    "Row",
    "names_below",
    "public_row",
    "row_of",
]

_PARTS = (
    changed,
    estimator,
    contrib,
    contrib_learn,
    contrib_sequence,
    contrib_slim,
    contrib_tools,
    layers,
    private,
    tensorflow_python,
)
TABLE: Mapping[str, Row] = types.MappingProxyType(
    {row.old: row for part in _PARTS for row in part.ROWS}
)
"""All rows by their old names."""

_CHANGED = frozenset(row.old for row in changed.ROWS)
CHANGED_PACKAGES = frozenset(
    ".".join(name.split(".")[:end]) for name in _CHANGED for end in range(1, name.count(".") + 1)
)
"""Packages of TensorFlow some of whose names have a row, and all others are TensorFlow's own."""

PUBLIC_OF_PRIVATE = (ESTIMATOR, *(f"{ESTIMATOR}.{each}" for each in ("export", "inputs", "tpu")))
"""Packages whose names the private modules of tf.estimator have, too."""


def row_of(name: str) -> Row | None:
    """Returns the row of a name: its own one, or that of the closest package with ".*"."""
    if name in TABLE:
        return TABLE[name]
    package = name
    while package:
        if f"{package}.*" in TABLE:
            return TABLE[f"{package}.*"]
        package = package.rpartition(".")[0]
    return None


@functools.cache
def names_below(package: str) -> frozenset[str]:
    """Returns the names that stand in a package: `export` and `Estimator` in "tf.estimator"."""
    start = f"{package}."
    below = (
        old[len(start) :].partition(".")[0]
        for old in TABLE
        if old.startswith(start) and old not in _CHANGED
    )
    return frozenset(below) - {"*"}


def public_row(name: str) -> Row | None:
    """Returns the row of the public name for a name in a private module, such as "EstimatorV2"."""
    rows = (TABLE.get(f"{home}.{name.removesuffix('V2')}") for home in PUBLIC_OF_PRIVATE)
    return next((row for row in rows if row is not None and row.new is not None), None)
