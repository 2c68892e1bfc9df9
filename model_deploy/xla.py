"""XLA: compiles the computation of one copy of a model.

This module decides which operations may be compiled. Operations that only compute may, and
TensorFlow clusters them; their results stay the same except for rounding. All others run as before:
state (variables, random numbers), checks, which XLA would drop, and functions, whose contents are
not inspected. TensorFlow itself skips operations that XLA does not support, such as those on
strings.

Gradients inherit the mark of the operations that they differentiate, wherever they are made.
`replicate` uses this for towers, `model_deploy` for clones.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from model_deploy._types import Variable

v1 = tf.compat.v1

_NOT_COMPILED = (
    # State, and operations that write it.
    "Assign",
    "Resource",
    "Variable",
    # Random numbers: XLA draws different ones.
    "Multinomial",
    "Random",
    "Rng",
    "Shuffle",
    "Stateful",
    "TruncatedNormal",
    # Checks: XLA drops them.
    "Assert",
    "CheckNumerics",
)
"""Substrings of the types of operations that are not compiled."""


@contextlib.contextmanager
def compiled_by_xla() -> Iterator[None]:
    """Compiles the computation built inside with XLA, except the initialization of variables."""
    scope = tf.xla.experimental.jit_scope(compile_ops=_may_be_compiled)
    with scope, v1.variable_creator_scope(_create_uncompiled):
        yield


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Excludes operations built inside from the surrounding `compiled_by_xla`."""
    with tf.xla.experimental.jit_scope(compile_ops=False):
        yield


def _create_uncompiled(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
    """Makes a variable with bit-identical initial values with and without XLA."""
    with uncompiled():
        return next_creator(**kwargs)


def _may_be_compiled(node: v1.NodeDef) -> bool:
    calls = any(value.HasField("func") or value.list.func for value in node.attr.values())
    return not calls and not any(part in node.op for part in _NOT_COMPILED)
