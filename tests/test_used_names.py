"""Names and arguments of TensorFlow that the packages use are those of this TensorFlow.

So what is not run on a release (see TESTS_TF215 in the Makefile) still calls nothing that it lacks.
"""

import ast
import collections
import inspect
import pathlib

import tensorflow as tf

SPACES = {"tf": tf, "v1": tf.compat.v1}
PACKAGES = ("kfac", "model_deploy", "replicate")
ROOT = pathlib.Path(__file__).parents[1]


def dotted(node):
    """Names after `tf` or `v1`, and which of the two, or None."""
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return (node.id, *names) if isinstance(node, ast.Name) and node.id in SPACES else None


def found(names):
    """Follows names through modules and classes; AttributeError if there is none."""
    value = SPACES[names[0]]
    for name in names[1:]:
        if not (inspect.ismodule(value) or inspect.isclass(value)):
            return None
        value = getattr(value, name)
    return value


def unknown_keywords(call, function):
    """Keywords of a call that the function doesn't take."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return set()
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return set()
    return {keyword.arg for keyword in call.keywords} - {None, *parameters}


def test_packages_use_only_what_is_there():
    missing = collections.defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node if isinstance(node, ast.Call) else None
            names = dotted(call.func if call else node)
            if not names:
                continue
            name, where = ".".join(names), f"{path.relative_to(ROOT)}:{node.lineno}"
            try:
                function = found(names)
            except AttributeError:
                missing[name].add(where)
                continue
            for keyword in unknown_keywords(call, function) if call and function else ():
                missing[f"{name}({keyword}=)"].add(where)
    assert not missing
