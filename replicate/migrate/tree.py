"""Walks over syntax trees: the parts of a node that have a meaning, and their parents.

libcst's visitors make each node anew to see if it has changed. Here nothing changes, and white
space and punctuation are left out.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator

import libcst as cst

_NO_PART = re.compile(
    r"whitespace|.*_lines$|lines_|header|footer|[lr](par|bracket|brace)|comma|equal|semicolon|colon"
    r"|newline|.*_newline|dot$|indent|encoding|default_|has_"
)


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if not _NO_PART.match(name))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yields the parts of a node, in the order of its fields."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, cst.CSTNode))


def parents_in(top: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """Returns the parent of each node below one."""
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    left = [top]
    while left:
        node = left.pop()
        for child in children(node):
            parents[child] = node
            left.append(child)
    return parents


def walk(
    top: cst.CSTNode, parts: Callable[[cst.CSTNode], Iterator[cst.CSTNode]] = children
) -> Iterator[cst.CSTNode]:
    """Yields a node and all below it, each before its parts.

    Args:
      top: The node.
      parts: Returns the parts of a node that the walk goes on to.
    """
    left = [top]
    while left:
        node = left.pop()
        yield node
        left += reversed(list(parts(node)))
