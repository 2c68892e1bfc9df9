"""Table of a model's variables, as rows and as plain text.

Owns the layout of the table and the sums in its last line. A program passes the variables, such as
`tf.compat.v1.trainable_variables()`, and prints the text. `Estimator` prints the short form.

Notes are a few words about a variable, such as its K-FAC block. An optimizer that can describe its
treatment of variables adds a function to a collection of the graph. The packages that add notes and
those that show them do not import each other: see `replicate.protocols`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from replicate._types import Graph, Variable
from replicate.protocols import VARIABLE_NOTES, VariableNotes

_GAP = "  "
_NUMERIC = frozenset({"parameters", "bytes"})
_UNKNOWN = "?"
_SHORTEST_NAME = 20


class VariableRow(NamedTuple):
    """One line of the table.

    Attributes:
      variable: Name, without ":0".
      shape: Such as "5x5x1x16" or "scalar"; "?" stands for what is unknown.
      dtype: Such as "float32".
      parameters: Number of elements, None if it is unknown.
      bytes: Size of the elements, None if it is unknown.
      device: Device, "" if TensorFlow chooses it.
      note: Text about the variable, None if there is none.
    """

    variable: str
    shape: str
    dtype: str
    parameters: int | None
    bytes: int | None
    device: str
    note: str | None


def model_table(variables: Iterable[Variable], notes: Mapping[str, str] | None = None) -> str:
    """Returns a table with a line per variable, and a last line with the sums.

    Args:
      variables: Variables, in the order of the lines. Those of unknown shape have "?" for it, and
        do not count in the sums.
      notes: Text for a last column, by the variable's name without ":0", such as its K-FAC block. A
        variable without a note has "-" there. None: no such column.

    Returns:
      Lines joined by newlines, with variable, shape, dtype, parameters, bytes, device and note. The
      last line is, for example, "4 variables, 101,770 parameters, 0.39 MiB".
    """
    rows = variable_rows(variables, notes)
    without = () if notes is not None else ("note",)
    return "\n".join([*_aligned(rows, without), sums(rows)])


def short_table(rows: Sequence[VariableRow], most_rows: int, width: int) -> str:
    """Returns the table without columns that say the same of each variable.

    These are dtype, device and note. A long table loses the lines in its middle, and long names of
    variables lose letters in theirs.

    Args:
      rows: Rows of the table.
      most_rows: Number of lines that are shown.
      width: Characters of a line. A narrow table still has 20 letters of each name.
    """
    without = [
        name
        for name in ("dtype", "device", "note")
        if len({getattr(row, name) for row in rows}) <= 1
    ]
    others = _aligned([row._replace(variable="") for row in rows], without)
    longest = max(_SHORTEST_NAME, width - max(map(len, others)) + len("variable"))
    lines = _aligned([row._replace(variable=_cut(row.variable, longest)) for row in rows], without)
    left_out = len(rows) - most_rows
    if left_out > 1:
        first = 1 + most_rows // 2
        lines[first : first + left_out] = [f"... {left_out} more ..."]
    return "\n".join([*lines, sums(rows)])


def variable_rows(
    variables: Iterable[Variable], notes: Mapping[str, str] | None = None
) -> list[VariableRow]:
    """Returns a row for each variable, with its note, if it has one."""
    return [_row(variable, notes or {}) for variable in variables]


def sums(rows: Sequence[VariableRow]) -> str:
    """Returns the last line of the table: the number of variables, parameters and bytes."""
    count = "1 variable" if len(rows) == 1 else f"{len(rows):,} variables"
    parameters = sum(row.parameters or 0 for row in rows)
    mebibytes = sum(row.bytes or 0 for row in rows) / 2**20
    return f"{count}, {parameters:,} parameters, {mebibytes:.2f} MiB"


def _row(variable: Variable, notes: Mapping[str, str]) -> VariableRow:
    name = variable.name.partition(":")[0]
    dtype = variable.dtype.base_dtype
    parameters = variable.shape.num_elements()
    return VariableRow(
        name,
        _shape(variable),
        dtype.name,
        parameters,
        None if parameters is None else parameters * int(dtype.size),
        variable.device or "",
        notes.get(name),
    )


def _shape(variable: Variable) -> str:
    if variable.shape.rank is None:
        return _UNKNOWN
    sizes = (_UNKNOWN if size is None else str(size) for size in variable.shape.as_list())
    return "x".join(sizes) or "scalar"


def _aligned(rows: Sequence[VariableRow], without: Collection[str]) -> list[str]:
    """Returns the head and the rows as lines whose columns are aligned."""
    names = [name for name in VariableRow._fields if name not in without]
    lines = [names, *([_cell(name, getattr(row, name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if name in _NUMERIC else cell.ljust(width)
            for name, cell, width in zip(names, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def _cut(name: str, longest: int) -> str:
    """Returns a name of at most so many letters."""
    if len(name) <= longest:
        return name
    tail = (longest - 3) // 2
    return f"{name[: longest - 3 - tail]}...{name[-tail:]}"


def _cell(name: str, value: str | int | None) -> str:
    if name in _NUMERIC:
        return _UNKNOWN if value is None else f"{value:,}"
    return str(value or "-")


def variable_notes(graph: Graph) -> dict[str, str]:
    """Returns the notes of a graph by the variable's name; a later note replaces an earlier one."""
    sources: list[VariableNotes] = graph.get_collection(VARIABLE_NOTES)
    return {name: note for source in sources for name, note in source().items()}
