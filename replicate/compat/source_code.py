"""Code of a program's modules, as the runner compiles it.

Attributes that objects have lost are read by `old_attribute`, which the builtins of the modules
have. Lines are those of the source.
"""

import ast
import types

from replicate.compat.old_libraries.attributes import NAMES, OF_PANDAS
from replicate.compat.python2.loading import MARK, tree_of

OLD_ATTRIBUTE = "__old_attribute__"
"""Name of `old_attribute` among the builtins of modules."""

FORMAT = 1
"""Number of the form of compiled code: files with code of another one are not read."""


def compiled(data: bytes, path: str, python2: bool = False) -> types.CodeType:
    """Returns the code of a module, translated if it is of Python 2.

    Args:
      data: The source.
      path: Its file, for tracebacks.
      python2: True to translate it also without a sign of Python 2.

    Raises:
      SyntaxError: It is no source.
    """
    tree = tree_of(data, path, python2)
    names = NAMES if b"pandas" in data else NAMES - OF_PANDAS
    if any(name.encode() in data for name in names):
        tree = _LostAttributes(names).visit(tree)
    return compile(tree, path, "exec", dont_inherit=True)


def is_python2(code: types.CodeType) -> bool:
    """Returns True for the code of a module that was translated."""
    return MARK in code.co_names


class _LostAttributes(ast.NodeTransformer):
    """Reads lost attributes by `old_attribute`."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr not in self._names or not isinstance(node.ctx, ast.Load):
            return node
        reader = ast.Name(OLD_ATTRIBUTE, ast.Load())
        call = ast.Call(reader, [node.value, ast.Constant(node.attr)], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))
