"""XLA: one copy of a model compiled to a few large operations, where its graph runs.

Owns the choice of what may be compiled. Operations that only compute may, and TensorFlow makes
clusters of them; what they compute stays the same but for rounding. Everything else runs as ever:
state (variables, random numbers), checks, which XLA would leave out, and functions, into which
nobody looks here. What XLA has no code for, such as strings, is left alone by TensorFlow itself.

Gradients follow: what is differentiated carries the mark, and its gradients inherit it, wherever
they are made. Called by `replicate` for towers and by `model_deploy` for clones.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from model_deploy._types import Variable

v1 = tf.compat.v1

_LEFT_ALONE = (
    # State, and what it is written by.
    "Assign",
    "Resource",
    "Variable",
    # Random numbers: XLA draws others.
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
"""Parts of the types of operations that are not compiled."""


@contextlib.contextmanager
def compiled_by_xla() -> Iterator[None]:
    """Lets XLA compile the computation that is built inside, the start of variables excepted."""
    scope = tf.xla.experimental.jit_scope(compile_ops=_may_be_compiled)
    with scope, v1.variable_creator_scope(_create_uncompiled):
        yield


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Takes what is built inside out of the `compiled_by_xla` around it."""
    with tf.xla.experimental.jit_scope(compile_ops=False):
        yield


def _create_uncompiled(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
    """Variable creator: weights begin bit by bit as they do without XLA."""
    with uncompiled():
        return next_creator(**kwargs)


def _may_be_compiled(node: v1.NodeDef) -> bool:
    calls = any(value.HasField("func") or value.list.func for value in node.attr.values())
    return not calls and not any(part in node.op for part in _LEFT_ALONE)
