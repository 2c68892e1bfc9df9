"""Calls of Python and its libraries whose arguments decide if they are to be rewritten.

A function of `CHANGED` in the table took more than it takes today. A call that needs no more than
that stays as it is, such as `yaml.load(text, Loader=loader)`.
"""

import types
from collections.abc import Callable, Mapping

import libcst as cst

from replicate.compat.table.libraries import CHANGED
from replicate.migrate.source import Edit
from replicate.migrate.tree import walk
from replicate.migrate.uses import Module, Use

_DECIDING = frozenset(("cls", "default", "dtype"))
_OF_ANY_VALUE = frozenset(
    ("json.dump", "json.dumps", "numpy.array", "numpy.asanyarray", "numpy.asarray", "numpy.sum")
)
"""Functions that are written also where they are not called, as in `map(np.array, rows)`."""
_OF_PYTHON2 = frozenset(("pickle.dump", "pickle.load", "pickle.loads"))
"""Functions that differ for what Python 2 wrote, and for its files that are text and bytes."""


def is_call_of_today(module: Module, use: Use) -> bool:
    """Returns True for the use of a changed function that works as it is."""
    path = use.place.path
    if path not in CHANGED:
        return False
    if path in _OF_PYTHON2 and not module.is_python2:
        return True
    call = module.source.parents.get(use.node)
    if not isinstance(call, cst.Call) or call.func is not use.node:
        return path not in _OF_ANY_VALUE
    return not _NEEDS[path](call)


def _keywords(call: cst.Call) -> frozenset[str]:
    return frozenset(each.keyword.value for each in call.args if each.keyword is not None)


def _in_order(call: cst.Call) -> list[cst.BaseExpression]:
    """Returns the arguments without keywords, as far as no star hides their places."""
    return [each.value for each in call.args if each.keyword is None and not each.star]


def _without(name: str, place: int) -> Callable[[cst.Call], bool]:
    """Returns a function that is True for calls that lack an argument, by name and by place."""
    return lambda call: (
        name not in _keywords(call)
        and sum(each.keyword is None for each in call.args) < place
        and not any(each.star for each in call.args)
    )


def _with_one_of(*names: str) -> Callable[[cst.Call], bool]:
    return lambda call: not _keywords(call).isdisjoint(names)


def _begins_with_generator(call: cst.Call) -> bool:
    """Returns True for a call such as `numpy.sum(row[0] for row in rows)`."""
    return bool(call.args) and isinstance(call.args[0].value, cst.GeneratorExp)


def _makes_array(call: cst.Call) -> bool:
    """Returns True if a call gives no type, and a value that may have unequal rows."""
    return len(_in_order(call)) < 2 and _writes_any_value(call)


def _writes_any_value(call: cst.Call) -> bool:
    """Returns True if a call gives no function, and a value that is not written out."""
    places = _in_order(call)
    return bool(places) and _keywords(call).isdisjoint(_DECIDING) and not _is_written_out(places[0])


def _is_written_out(value: cst.BaseExpression) -> bool:
    """Returns True for numbers, texts, and lists and dicts of them; one level tells the rows."""
    if isinstance(value, cst.List | cst.Tuple | cst.Dict):
        return all(_is_written_out(each.value) for each in value.elements)
    if isinstance(value, cst.UnaryOperation):
        return _is_written_out(value.expression)
    return isinstance(value, cst.BaseNumber | cst.BaseString)


def _saves_rows(call: cst.Call) -> bool:
    """Returns True if a call saves a list whose rows may be unequal, or has `fix_imports`."""
    values = [each.value for each in call.args[1:]]
    return "fix_imports" in _keywords(call) or any(
        isinstance(each, cst.List | cst.ListComp | cst.Tuple) and not _is_written_out(each)
        for each in values
    )


def _takes_set(call: cst.Call) -> bool:
    """Returns True if the first argument is a set, or the view of a dict."""
    first = next(iter(_in_order(call)), None)
    if isinstance(first, cst.Call):
        func = first.func
        name = func.attr if isinstance(func, cst.Attribute) else func
        return isinstance(name, cst.Name) and name.value in ("keys", "set", "values")
    return isinstance(first, cst.Set | cst.SetComp)


def _takes_float(call: cst.Call) -> bool:
    """Returns True if an argument may be a float with a whole value, such as `n / 2` or `1e6`."""
    return any(_is_float(each) for each in _in_order(call))


def _is_float(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        is_quotient = isinstance(value.operator, cst.Divide)
        return is_quotient or _is_float(value.left) or _is_float(value.right)
    return isinstance(value, cst.Float)


_NEEDS: Mapping[str, Callable[[cst.Call], bool]] = types.MappingProxyType(
    {
        **dict.fromkeys(("numpy.array", "numpy.asanyarray", "numpy.asarray"), _makes_array),
        **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed"), _saves_rows),
        **dict.fromkeys(("json.dump", "json.dumps"), _writes_any_value),
        **dict.fromkeys(("json.load", "json.loads"), _with_one_of("encoding")),
        **dict.fromkeys(("pickle.load", "pickle.loads"), _without("encoding", 9)),
        **dict.fromkeys(("yaml.load", "yaml.load_all"), _without("Loader", 2)),
        **dict.fromkeys(("random.randint", "random.randrange"), _takes_float),
        "numpy.fromstring": _without("sep", 4),
        "numpy.load": _without("allow_pickle", 3),
        "numpy.sum": _begins_with_generator,
        "pandas.read_csv": _with_one_of("error_bad_lines", "squeeze", "warn_bad_lines"),
        "pickle.dump": lambda call: True,
        "random.sample": _takes_set,
        "random.shuffle": lambda call: len(call.args) > 1,
    }
)
"""Functions that tell if a call needs what the changed function took, by its name."""


def modes_of_today(module: Module) -> list[Edit]:
    """Returns the edits for the "U" in `open(path, "rU")`, which Python 3.11 refuses."""
    edits = []
    for node in walk(module.source.module):
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name)):
            continue
        if node.func.value != "open" or "open" in module.bindings.bound:
            continue
        if module.bindings.meaning(node.func) is not None:
            continue
        for mode in [*_in_order(node)[1:2], *(e.value for e in node.args if _is_mode(e))]:
            if isinstance(mode, cst.SimpleString) and "U" in mode.raw_value:
                new = mode.raw_value.replace("U", "")
                new = new if set(new) & set("rwax") else f"r{new}"
                edits.append(
                    Edit(*module.source.span(mode), f"{mode.prefix}{mode.quote}{new}{mode.quote}")
                )
    return edits


def _is_mode(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "mode"
