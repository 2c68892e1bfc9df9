"""Operations that run only in some steps, whatever they assign.

The operations that an optimizer makes are gated where they are, by control inputs that are dead in
the other steps, instead of being moved into a branch that is a function of its own. So reference
variables can be assigned in them, summaries stay in the graph's collection, and variables made on
the way belong to the graph. Used by `TowerOptimizer` and what it is made of.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1


def only_if(condition: Tensor, make: Callable[[], Operation]) -> Operation:
    """Returns an operation that runs what `make` makes, in the steps that meet the condition.

    In other steps it does nothing. Summaries made on the way are empty in these.

    Args:
      condition: Boolean scalar.
      make: Called once, now. What it returns ends the work.
    """
    with v1.name_scope("only_if"):
        otherwise, chosen = tf.raw_ops.Switch(data=condition, pred=condition)
    return _gated(chosen, otherwise, make)


def unless(condition: Tensor, make: Callable[[], Operation]) -> Operation:
    """Does the same as `only_if` in the steps that do not meet the condition."""
    with v1.name_scope("unless"):
        chosen, otherwise = tf.raw_ops.Switch(data=condition, pred=condition)
    return _gated(chosen, otherwise, make)


def _gated(chosen: Tensor, otherwise: Tensor, make: Callable[[], Operation]) -> Operation:
    """Runs what `make` makes where `chosen` is alive; `otherwise` is alive in all other steps."""
    summaries = v1.get_collection_ref(v1.GraphKeys.SUMMARIES)
    before = len(summaries)
    with v1.name_scope("only_if"):
        chosen = tf.identity(chosen)
    with v1.control_dependencies([chosen]):
        done = make()
    with v1.name_scope("only_if"):
        summaries[before:] = _empty_unless_made(summaries[before:], otherwise)
        with v1.control_dependencies([done]):
            finished = tf.identity(chosen)
        return tf.raw_ops.Merge(inputs=[otherwise, finished]).output.op


def _empty_unless_made(summaries: Sequence[Tensor], otherwise: Tensor) -> list[Tensor]:
    """A session cannot fetch what was not run, so there must be a value in every step."""
    if not summaries:
        return []
    with v1.control_dependencies([tf.identity(otherwise)]):
        empty = tf.constant("")
    return [tf.raw_ops.Merge(inputs=[empty, summary]).output for summary in summaries]
