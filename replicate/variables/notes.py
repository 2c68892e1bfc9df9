"""Variable notes: a few words about a variable, such as its K-FAC block, for the model table.

An optimizer that can describe its treatment of variables adds a function to a collection of the
graph. The packages that add notes and those that show them do not import each other, and share the
collection's key only: see `replicate.protocols`.
"""

from replicate._types import Graph
from replicate.protocols import VARIABLE_NOTES, VariableNotes


def variable_notes(graph: Graph) -> dict[str, str]:
    """Returns the notes of a graph by the variable's name; a later note replaces an earlier one."""
    sources: list[VariableNotes] = graph.get_collection(VARIABLE_NOTES)
    return {name: note for source in sources for name, note in source().items()}
