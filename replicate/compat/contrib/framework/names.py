"""Names of operations, and placeholders of a graph."""

from typing import Any

import tensorflow as tf


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """Returns the name that an operation gets when its graph is imported below a scope.

    "^name" of a control dependency and "loc:@name" keep their marks.
    """
    if not import_scope:
        return name
    for mark in ("loc:@", "^"):
        if name.startswith(mark):
            return f"{mark}{import_scope}/{name.removeprefix(mark)}"
    return f"{import_scope}/{name}"


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """Returns the name that an operation gets when a scope is exported as a graph."""
    if not export_scope:
        return name
    for mark in ("loc:@", "^", ""):
        if name.startswith(f"{mark}{export_scope}/"):
            return mark + name.removeprefix(f"{mark}{export_scope}/")
    return name


def get_placeholders(graph: tf.Graph) -> list[Any]:
    """Returns the Tensors of all placeholders of a graph, in the order in which they were made."""
    operations = graph.get_operations()
    return [each.outputs[0] for each in operations if each.type == "Placeholder"]
