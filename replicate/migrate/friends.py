"""What a program of TensorFlow 1 calls of Python and its friends, where the call decides."""

import libcst as cst

from replicate.compat.friends.attributes import RENAMED
from replicate.compat.table.lost import WRITTEN
from replicate.migrate.source import Edit
from replicate.migrate.uses import Module, Use

_SAFE = {"numpy.fromstring": ("sep", 4), "yaml.load": ("Loader", 2), "yaml.load_all": ("Loader", 2)}
"""The argument that a call needs today: its name, and its place from 1."""


def is_call_of_today(module: Module, use: Use) -> bool:
    """Returns True for a call that works as it is, such as `yaml.load(text, Loader=loader)`."""
    if use.place.path not in WRITTEN:
        return False
    call = module.source.parents.get(use.node)
    is_called = isinstance(call, cst.Call) and call.func is use.node
    if use.place.path == "numpy.sum":
        return not (is_called and _begins_with_generator(call))
    if not is_called:
        return False
    name, place = _SAFE[use.place.path]
    is_named = any(each.keyword is not None and each.keyword.value == name for each in call.args)
    return is_named or len([each for each in call.args if each.keyword is None]) >= place


def _begins_with_generator(call: cst.Call) -> bool:
    """Returns True for a call such as `numpy.sum(row[0] for row in rows)`."""
    return bool(call.args) and isinstance(call.args[0].value, cst.GeneratorExp)


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
        new = RENAMED.get(func.attr.value)
        is_own = func.attr.value in self._module.bindings.bound
        is_of_module = self._module.bindings.meaning(func.value) is not None
        if new is not None and not is_own and not is_of_module:
            self.edits.append(Edit(*self._module.source.span(func.attr), new))
