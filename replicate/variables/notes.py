"""Variable notes: a few words about a variable, such as its K-FAC block, for the model table.

An optimizer that can describe its treatment of variables adds a function to a collection of the
graph. The packages that add notes and those that show them do not import each other, and share the
collection's key only.
"""

from collections.abc import Callable, Mapping

from replicate._types import Graph

KEY = ("variable_notes",)
"""Key of the collection of functions () -> {name of a variable without ":0": note}.

Not a string, so that an exported MetaGraph does not contain the collection.
"""


def variable_notes(graph: Graph) -> dict[str, str]:
    """Returns the notes of a graph by the variable's name; a later note replaces an earlier one."""
    sources: list[Callable[[], Mapping[str, str]]] = graph.get_collection(KEY)
    return {name: note for source in sources for name, note in source().items()}
