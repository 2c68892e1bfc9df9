"""Calls of Python and its libraries whose arguments decide if they are to be rewritten."""

import libcst as cst

from replicate.compat.old_libraries.attributes import RENAMED
from replicate.compat.table.libraries import WRITTEN
from replicate.migrate.source import Edit
from replicate.migrate.uses import Module, Use

_SAFE = {"numpy.fromstring": ("sep", 4), "yaml.load": ("Loader", 2), "yaml.load_all": ("Loader", 2)}
"""The argument that a call needs today: its name, and its place from 1."""
_OF_VALUES = frozenset(
    ("json.dump", "json.dumps", "numpy.array", "numpy.asanyarray", "numpy.asarray")
)
"""Functions that take less than they took of their first argument; not of one that is written out,
nor with a type or a function that the call names."""
_OF_ANY_VALUE = _OF_VALUES | {"numpy.sum"}
_DECIDING = frozenset(("cls", "default", "dtype"))
_ITERATORS = {"iteritems": "items", "iterkeys": "keys", "itervalues": "values"}
_VIEWS = {"viewitems": "items", "viewkeys": "keys", "viewvalues": "values"}
_ITERATING = frozenset(
    [
        "all",
        "any",
        "dict",
        "enumerate",
        "filter",
        "frozenset",
        "iter",
        "list",
        "map",
        "max",
        "min",
        "set",
        "sorted",
        "sum",
        "tuple",
        "zip",
    ]
)
"""Builtins that take an iterable as well as an iterator."""


def is_call_of_today(module: Module, use: Use) -> bool:
    """Returns True for a call that works as it is, such as `yaml.load(text, Loader=loader)`."""
    call = module.source.parents.get(use.node)
    path = use.place.path
    if path not in WRITTEN:
        return False
    if not isinstance(call, cst.Call) or call.func is not use.node:
        return path in _OF_ANY_VALUE  # Such as `map(np.array, rows)`.
    if path == "numpy.sum":
        return not _begins_with_generator(call)
    if path in _OF_VALUES:
        return _is_of_plain_value(call, path)
    name, place = _SAFE[path]
    is_named = any(each.keyword is not None and each.keyword.value == name for each in call.args)
    return is_named or len([each for each in call.args if each.keyword is None]) >= place


def _begins_with_generator(call: cst.Call) -> bool:
    """Returns True for a call such as `numpy.sum(row[0] for row in rows)`."""
    return bool(call.args) and isinstance(call.args[0].value, cst.GeneratorExp)


def _is_of_plain_value(call: cst.Call, path: str) -> bool:
    """Returns True if a call gives a type, or a value that is written out."""
    named = {each.keyword.value for each in call.args if each.keyword is not None}
    places = [each for each in call.args if each.keyword is None and not each.star]
    is_typed = path.startswith("numpy.") and len(places) > 1
    return is_typed or bool(named & _DECIDING) or not places or _is_written_out(places[0].value)


def _is_written_out(value: cst.BaseExpression) -> bool:
    """Returns True for numbers, texts, and lists and dicts of them; one level tells the rows."""
    if isinstance(value, cst.List | cst.Tuple):
        return all(_is_written_out(each.value) for each in value.elements)
    if isinstance(value, cst.Dict):
        return all(_is_written_out(each.value) for each in value.elements)
    if isinstance(value, cst.UnaryOperation):
        return _is_written_out(value.expression)
    return isinstance(value, cst.BaseNumber | cst.BaseString)


def renamed_methods(module: Module) -> list[Edit]:
    """Returns the edits for methods that have another name now, such as `array.tostring()`."""
    visitor = _Methods(module)
    module.source.module.visit(visitor)
    return visitor.edits


class _Methods(cst.CSTVisitor):
    """Renames methods of objects, but not functions of modules nor what the module defines."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.edits: list[Edit] = []
        self._module = module

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        func = node.func
        if not isinstance(func, cst.Attribute) or node.args:
            return
        old = func.attr.value
        new = RENAMED.get(old) or _ITERATORS.get(old) or _VIEWS.get(old)
        is_own = old in self._module.bindings.bound
        is_of_module = self._module.bindings.meaning(func.value) is not None
        if new is None or is_own or is_of_module:
            return
        source = self._module.source
        self.edits.append(Edit(*source.span(func.attr), new))
        if old in _ITERATORS and not self._is_iterated(node):
            start, end = source.span(node)
            self.edits += [Edit(start, start, "iter(", False), Edit(end, end, ")", False)]

    def _is_iterated(self, node: cst.Call) -> bool:
        """Returns True where all that is iterable will do, and need not be an iterator."""
        parent = self._module.source.parents.get(node)
        if isinstance(parent, cst.For | cst.CompFor):
            return parent.iter is node
        if not isinstance(parent, cst.Arg):
            return False
        func = self._module.source.parents[parent].func
        return isinstance(func, cst.Name) and func.value in _ITERATING
