"""Counts the functions that a value passes in one step of K-FAC: `python tools/step_walks.py`.

A small network's step is built in a graph, and each function of `kfac` that is given or returns a
Tensor of that graph meanwhile counts, once. What makes a formula one operation, and what shows
errors, does not count. A function belongs to the walk whose entry is the innermost one above it;
the first walk has all that is below no other entry. Two parts of an optimizer are no part of its
steps and have rows of their own: factors and variables, which are made once, whatever is built
first, and the report of health, which no value of a step passes. With `--names` the functions are
listed.
"""

import ast
import collections
import dataclasses
import inspect
import pathlib
import sys
import textwrap
import types
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

import kfac

v1 = tf.compat.v1

_NAMES = flags.DEFINE_bool("names", False, "Lists the functions.")

_STEP = {
    "KfacOptimizer.apply_gradients": "gradient → changed weights",
    "FisherEstimator.make_inv_update_op": "average → inverse",
    "FisherEstimator.make_cov_update_op": "activations → average",
}
_ONCE = "(once: factors, variables, checks)"
_BESIDE = {
    "LayerCollection.finalize": _ONCE,
    "FisherEstimator._make_factors": _ONCE,
    "FisherEstimator.make_vars": _ONCE,
    "LayerCollection.check_registration": _ONCE,
    "check_collection": _ONCE,
    "KfacOptimizer._make_velocities": _ONCE,
    "make_variable": _ONCE,
    "summarize": "(report of health)",
}
_ENTRIES = _STEP | _BESIDE
"""Qualified name of the function in which a walk begins → the walk."""

_ROOT = pathlib.Path(kfac.__file__).parent
_APART = {str(_ROOT / "linalg" / "shared.py"), str(_ROOT / "tracebacks.py")}


@dataclasses.dataclass
class _Walk:
    """Functions that count, and the most of them that were active at once."""

    functions: set[types.CodeType] = dataclasses.field(default_factory=set)
    depth: int = 0


class _Watcher:
    """Profile function that collects the walks."""

    def __init__(self) -> None:
        self.walks: dict[str, _Walk] = collections.defaultdict(_Walk)
        self._active: list[tuple[types.FrameType, str | None]] = []

    def __call__(self, frame: types.FrameType, event: str, value: Any) -> None:
        """Notes a call of a function of kfac, or its return."""
        if event not in ("call", "return") or not _is_function(frame.f_code):
            return
        if event == "call":
            outer = self._active[-1][1] if self._active else None
            self._active.append((frame, _ENTRIES.get(frame.f_code.co_qualname, outer)))
            self._count(list(frame.f_locals.values()))
        elif self._active and self._active[-1][0] is frame:
            self._count(value)
            self._active.pop()

    def _count(self, value: Any) -> None:
        frame, walk = self._active[-1]
        if walk is not None and _has_tensor(value):
            found = self.walks[walk]
            found.functions.add(frame.f_code)
            below = [
                each for each, its in self._active if its == walk and each.f_code in found.functions
            ]
            found.depth = max(found.depth, len(below))


def _is_function(code: types.CodeType) -> bool:
    is_named = not code.co_name.startswith("<") and code.co_filename not in _APART
    return is_named and pathlib.Path(code.co_filename).is_relative_to(_ROOT)


def _has_tensor(value: Any) -> bool:
    if isinstance(value, tf.Tensor):
        return True
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return any(_has_tensor(each) for each in value)


def _only_forwards(code: types.CodeType) -> bool:
    """Returns True for a function that returns a call on its arguments as they are.

    A call of an operation of TensorFlow is a formula.
    """
    source = ast.parse(textwrap.dedent(inspect.getsource(code)))
    function = source.body[0]
    body = [each for each in getattr(function, "body", []) if not _is_text(each)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call):
        return False
    if ast.unparse(call.func).startswith("tf."):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(each, ast.Name | ast.Attribute | ast.Constant) for each in given)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _watched_step() -> dict[str, _Walk]:
    """Builds a step of a network of a convolution and two dense layers, and returns its walks."""
    with tf.Graph().as_default():
        images = tf.constant(np.ones([8, 6, 6, 1], np.float32))
        filters = v1.get_variable("conv/kernel", [3, 3, 1, 4])
        weights = [v1.get_variable(f"dense_{i}/kernel", [m, n]) for i, m, n in _SIZES]
        biases = [v1.get_variable(f"dense_{i}/bias", [n]) for i, _, n in _SIZES]
        layers = kfac.LayerCollection()
        products = tf.nn.conv2d(images, filters, 1, "SAME")
        layers.register_conv2d(filters, (1, 1, 1, 1), "SAME", images, products)
        values = tf.reshape(tf.nn.relu(products), [8, 144])
        for weight, bias in zip(weights, biases, strict=True):
            outputs = values @ weight + bias
            layers.register_fully_connected((weight, bias), values, outputs)
            values = tf.nn.relu(outputs)
        layers.register_categorical_predictive_distribution(outputs)
        labels = tf.zeros([8], tf.int32)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, outputs)
        optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
            learning_rate=0.1,
            damping=0.1,
            layer_collection=layers,
            momentum=0.9,
            cov_update_every=2,
            invert_every=4,
        )
        gradients = optimizer.compute_gradients(loss)
        watcher = _Watcher()
        sys.setprofile(watcher)
        try:
            optimizer.apply_gradients(gradients, v1.train.get_or_create_global_step())
        finally:
            sys.setprofile(None)
        return watcher.walks


_SIZES = ((0, 144, 10), (1, 10, 3))


def _row(name: str, functions: set[types.CodeType], depth: int) -> str:
    files = {code.co_filename for code in functions}
    forwards = sum(_only_forwards(code) for code in functions)
    lines = sum(len(inspect.getsourcelines(code)[0]) for code in functions)
    return f"| {name} | {len(functions)} | {forwards} | {len(files)} | {lines:,} | {depth} |"


def main(_: list[str]) -> None:
    """Prints the table of the walks."""
    walks = _watched_step()
    print("| walk | functions | only forward | files | lines | deepest call |")
    print("|---|---|---|---|---|---|")
    of_step = [walks[name] for name in _STEP.values()]
    every = set().union(*(walk.functions for walk in of_step))
    for name in _STEP.values():
        print(_row(name, walks[name].functions, walks[name].depth))
    print(_row("a step: all three, each once", every, max(walk.depth for walk in of_step)))
    for name in dict.fromkeys(_BESIDE.values()):
        print(_row(name, walks[name].functions - every, walks[name].depth))
    if _NAMES.value:
        for name, walk in walks.items():
            print(f"\n{name}:")
            for code in sorted(walk.functions, key=lambda c: (c.co_filename, c.co_firstlineno)):
                path = pathlib.Path(code.co_filename).relative_to(_ROOT.parent)
                note = " (only forwards)" if _only_forwards(code) else ""
                print(f"  {path}:{code.co_firstlineno} {code.co_qualname}{note}")


if __name__ == "__main__":
    app.run(main)
