"""Operations that run in some steps only.

The operations stay in the graph itself, instead of in a `tf.cond` branch. In the other steps their
control inputs are dead, so they do not run. They may therefore assign reference variables, add
summaries to the graph's collection and make variables. `TowerOptimizer` and its parts use this.

The CPU decides which operations of a step run, so conditions are evaluated there. Otherwise
TensorFlow would put them on the first GPU, and each would wait for that GPU.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Operation, Tensor

v1 = tf.compat.v1


def run_if(condition: Tensor | None, make: Callable[[], Operation]) -> Operation:
    """Returns an operation that runs what `make` makes now, in the steps that meet a condition.

    It does nothing in other steps. Summaries made inside `make` are empty in those. None as the
    condition: every step meets it.
    """
    if condition is None:
        return make()
    with v1.name_scope("run_if"), v1.device(CPU):
        otherwise, chosen = tf.raw_ops.Switch(data=condition, pred=condition)
    return _gated(chosen, otherwise, make)


def run_unless(condition: Tensor, make: Callable[[], Operation]) -> Operation:
    """Does the same as `run_if`, in the steps that do not meet the condition."""
    with v1.name_scope("run_unless"), v1.device(CPU):
        chosen, otherwise = tf.raw_ops.Switch(data=condition, pred=condition)
    return _gated(chosen, otherwise, make)


def in_branch_or_loop() -> bool:
    """Returns True in a `tf.cond` or `tf.while_loop` of control flow version 1.

    Those are built in the graph itself, and what they read from outside passes through a switch or
    an entry of theirs. The answer comes from such a read.
    """
    with v1.name_scope("branch_or_loop"), v1.device(CPU):
        with v1.control_dependencies(None):
            outside = tf.constant(False)
        return tf.identity(outside).op.inputs[0] is not outside


def _gated(chosen: Tensor, otherwise: Tensor, make: Callable[[], Operation]) -> Operation:
    """Runs an operation in the steps where `chosen` is alive; in others, `otherwise` is."""
    summaries = v1.get_collection_ref(v1.GraphKeys.SUMMARIES)
    before = len(summaries)
    with v1.name_scope("run_if"), v1.device(CPU):
        chosen = tf.identity(chosen)
    with v1.control_dependencies([chosen]):
        done = make()
    with v1.name_scope("run_if"), v1.device(CPU):
        summaries[before:] = _empty_where_dead(summaries[before:], otherwise)
        with v1.control_dependencies([done]):
            finished = tf.identity(chosen)
        return tf.raw_ops.Merge(inputs=[otherwise, finished]).output.op


def _empty_where_dead(summaries: Sequence[Tensor], otherwise: Tensor) -> list[Tensor]:
    """Replaces summaries by ones that are empty in steps that do not compute them.

    A session cannot fetch a dead tensor, so every step needs a value.
    """
    if not summaries:
        return []
    with v1.control_dependencies([tf.identity(otherwise)]):
        empty = tf.constant("")
    return [tf.raw_ops.Merge(inputs=[empty, summary]).output for summary in summaries]
