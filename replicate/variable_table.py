"""Table of a model's variables, as plain text.

Owns the layout of the table and the sums in its last line. A program passes the variables, such as
`tf.compat.v1.trainable_variables()`, and prints the text.
"""

import math
from collections.abc import Iterable, Mapping

from replicate._types import Variable

_GAP = "  "
_NUMERIC = frozenset({"parameters", "bytes"})


def model_table(variables: Iterable[Variable], notes: Mapping[str, str] | None = None) -> str:
    """Returns a table with a line per variable, and a last line with the sums.

    Args:
      variables: Variables with static shapes, in the order of the lines.
      notes: Text for a last column, by the variable's name without ":0", such as its K-FAC block. A
        variable without a note has "-" there. None: no such column.

    Returns:
      Lines joined by newlines, with variable, shape, dtype, parameters, bytes, device and note. The
      last line is, for example, "4 variables, 101,770 parameters, 0.39 MiB".
    """
    shown = list(variables)
    columns = ["variable", "shape", "dtype", "parameters", "bytes", "device"]
    rows = [_row(variable) for variable in shown]
    if notes is not None:
        columns.append("note")
        rows = [[*row, notes.get(row[0], "-")] for row in rows]
    return "\n".join([*_aligned(columns, rows), _total(shown)])


def _row(variable: Variable) -> list[str]:
    return [
        variable.name.partition(":")[0],
        "x".join(map(str, variable.shape.as_list())) or "scalar",
        variable.dtype.base_dtype.name,
        f"{_parameters(variable):,}",
        f"{_bytes(variable):,}",
        variable.device or "-",
    ]


def _parameters(variable: Variable) -> int:
    return math.prod(variable.shape.as_list())


def _bytes(variable: Variable) -> int:
    return _parameters(variable) * int(variable.dtype.base_dtype.size)


def _total(variables: list[Variable]) -> str:
    count = "1 variable" if len(variables) == 1 else f"{len(variables):,} variables"
    parameters = sum(map(_parameters, variables))
    mebibytes = sum(map(_bytes, variables)) / 2**20
    return f"{count}, {parameters:,} parameters, {mebibytes:.2f} MiB"


def _aligned(columns: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if name in _NUMERIC else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in [columns, *rows]
    ]
