"""The table of old names: for each name of TensorFlow 1 its replacement, and the difference.

Pure data, without TensorFlow. `old_modules.py` reads it to make the old modules, and the guides
list its names. A row has one of three forms:

- a name with a replacement: `Row("tf.estimator.Estimator", "replicate.Estimator")`;
- a name without one, whose advice is the text of the error when it is used;
- a package, whose names all stand in the replacement: `Row("tf.contrib.kfac.*", "kfac")`.

`tf.estimator` stands for `tf.compat.v1.estimator`, too. There `replicate.v1` takes the place of
`replicate`, with the default loss of TensorFlow 1.

Rows of one package of TensorFlow 1 stand in a module of this folder.
"""

import types
from collections.abc import Mapping

from replicate.compat.table import (
    contrib,
    contrib_learn,
    contrib_sequence,
    contrib_slim,
    estimator,
    layers,
    private,
)
from replicate.compat.table.estimator import V1_DEFAULTS
from replicate.compat.table.private import PRIVATE_MODULES
from replicate.compat.table.row import CONTRIB, ESTIMATOR, MISSING, PRIVATE, Row

__all__ = [
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
    estimator,
    contrib,
    contrib_learn,
    contrib_sequence,
    contrib_slim,
    layers,
    private,
)
TABLE: Mapping[str, Row] = types.MappingProxyType(
    {row.old: row for part in _PARTS for row in part.ROWS}
)
"""All rows by their old names."""

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


def names_below(package: str) -> frozenset[str]:
    """Returns the names that stand in a package: `export` and `Estimator` in "tf.estimator"."""
    start = f"{package}."
    below = (old[len(start) :].partition(".")[0] for old in TABLE if old.startswith(start))
    return frozenset(below) - {"*"}


def public_row(name: str) -> Row | None:
    """Returns the row of the public name for a name in a private module, such as "EstimatorV2"."""
    rows = (TABLE.get(f"{home}.{name.removesuffix('V2')}") for home in PUBLIC_OF_PRIVATE)
    return next((row for row in rows if row is not None and row.new is not None), None)
