"""Signs of Python 2 in a module that Python 3 can parse, and signs of Python 3."""

import ast
import os
import re
from collections.abc import Iterator

_FUNCTIONS = frozenset(
    {
        "apply",
        "basestring",
        "cmp",
        "execfile",
        "intern",
        "long",
        "raw_input",
        "reduce",
        "reload",
        "unichr",
        "unicode",
        "xrange",
    }
)
_MODULES = frozenset(
    {
        "ConfigParser",
        "HTMLParser",
        "Queue",
        "StringIO",
        "__builtin__",
        "cPickle",
        "cStringIO",
        "commands",
        "httplib",
        "urllib2",
        "urlparse",
    }
)
_ITERATORS = frozenset({"filter", "map", "zip"})
"""Functions that return lists in Python 2, and iterators in Python 3."""

_VERSION = re.compile(r"version|PY_?[23]|hasattr|builtin|globals|python", re.IGNORECASE)
_OF_PRINT = frozenset({"end", "file", "flush", "sep"})


def sign_of_python2(tree: ast.Module, path: str) -> str | None:
    """Returns a sign of Python 2, such as "xrange in line 3", or None.

    A name counts if nothing in the module binds it, and a module if it is imported unconditionally.
    What stands in a `try` that catches its absence, or under a test of the version, is of a module
    for both Pythons.

    Args:
      tree: The module.
      path: Its file: modules beside it may have names of Python 2.
    """
    bound = _bound_names(tree)
    if "*" in bound:
        return None
    folder = os.path.dirname(path)
    lists = _ITERATORS - bound
    for scope in (
        node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef)
    ):
        found = _use_as_list(scope, lists)
        if found is not None:
            return found
    for node in _unconditional(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in _FUNCTIONS and node.id not in bound:
                return f"{node.id} in line {node.lineno}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for name in _imported(node):
                is_beside = os.path.exists(os.path.join(folder, f"{name}.py"))
                if name in _MODULES and not is_beside:
                    return f"{name} in line {node.lineno}"
    return None


def _use_as_list(scope: ast.Module | ast.FunctionDef, functions: frozenset[str]) -> str | None:
    """Returns a sign if the length or an item of what `map` and its kin return is asked for.

    The result may be bound to a name that the scope binds to nothing else.
    """
    own = list(_of_scope(scope))
    made: dict[str, bool] = {}
    for node in own:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                is_list = _is_call_of(node.value, functions)
                made[target.id] = is_list and made.get(target.id, True)
        elif isinstance(node, ast.For | ast.AugAssign) and isinstance(node.target, ast.Name):
            made[node.target.id] = False
    for node in own:
        value: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            value = node.value
        elif _is_call_of(node, frozenset({"len"})) and isinstance(node, ast.Call) and node.args:
            value = node.args[0]
        is_list = isinstance(value, ast.Name) and made.get(value.id, False)
        if value is not None and (is_list or _is_call_of(value, functions)):
            return f"a list of map, zip or filter in line {value.lineno}"
    return None


def _of_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a scope, without those of functions and of guards in it."""
    for each in ast.iter_child_nodes(scope):
        if not _is_guard(each):
            yield each
            if not isinstance(each, ast.FunctionDef | ast.Lambda):
                yield from _of_scope(each)


def _is_call_of(node: ast.AST, functions: frozenset[str]) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and node.func.id in functions  # type: ignore[attr-defined]


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [] if node.level else [(node.module or "").partition(".")[0]]
    return [each.name.partition(".")[0] for each in node.names]


def _unconditional(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that no test of the version and no `try` guards."""
    yield node
    for each in ast.iter_child_nodes(node):
        if not _is_guard(each):
            yield from _unconditional(each)


def _is_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Try):
        caught = [each.type for each in node.handlers]
        names = [ast.unparse(each) for each in caught if each is not None]
        return None in caught or any(re.search(r"NameError|Import|^Exception", e) for e in names)
    if isinstance(node, ast.If | ast.IfExp):
        return _VERSION.search(ast.unparse(node.test)) is not None
    if isinstance(node, ast.BoolOp):
        return _VERSION.search(ast.unparse(node.values[0])) is not None
    return False


def _bound_names(tree: ast.Module) -> set[str]:
    """Returns the names that a module binds anywhere, with "*" for an import of all names."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
    return bound


def is_only_python3(tree: ast.Module) -> bool:
    """Returns True for a module that uses what Python 2 has not."""
    return any(_is_of_python3(node) for node in ast.walk(tree))


def _is_of_python3(node: ast.AST) -> bool:
    if isinstance(node, ast.arguments):
        return bool(node.kwonlyargs or node.posonlyargs)
    if isinstance(node, ast.arg):
        return node.annotation is not None
    if isinstance(node, ast.Raise):
        return node.cause is not None
    if isinstance(node, ast.ClassDef):
        return bool(node.keywords)
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        is_print = name == "print" and any(each.arg in _OF_PRINT for each in node.keywords)
        return is_print or (name == "super" and not node.args)
    kinds = (ast.JoinedStr, ast.AnnAssign, ast.Nonlocal, ast.YieldFrom, ast.Await, ast.MatMult)
    return isinstance(node, (*kinds, ast.AsyncFunctionDef, ast.NamedExpr))
