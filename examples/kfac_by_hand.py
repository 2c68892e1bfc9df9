"""K-FAC's updates chained by hand: averages, then inverses, then the step, always in this order.

For programs that want other moments than `kfac.PeriodicInvCovUpdateKfacOpt`, which does the same by
itself: `minimize` computes all inverses every so many steps, `minimize_in_turn` one in each step.
Called by the example programs that build a plain graph.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import kfac

v1 = tf.compat.v1
Updates = Sequence[Callable[[], Any]]


def minimize(optimizer: kfac.KfacOptimizer, loss: Any, global_step: Any, invert_every: int) -> Any:
    """Returns an op that makes one step, and computes all inverses before it if they are due.

    Args:
      optimizer: Its layers and losses are registered, those of all towers.
      loss: The mean over the batch, shape [].
      global_step: Incremented by one after the step.
      invert_every: Steps between two computations of the inverses.
    """
    averages, inverses = optimizer.make_vars_and_create_op_thunks()
    step = _step_after(averages, global_step)
    with v1.control_dependencies([_run_if(tf.equal(step % invert_every, 0), inverses)]):
        return optimizer.minimize(loss, global_step=global_step)


def minimize_in_turn(optimizer: kfac.KfacOptimizer, loss: Any, global_step: Any) -> Any:
    """Returns an op that makes one step, after one inverse; at the first step after all of them.

    The arguments are those of `minimize`.
    """
    averages, inverses = optimizer.make_vars_and_create_op_thunks()
    step = _step_after(averages, global_step)
    with v1.control_dependencies([_run_if(tf.equal(step, 0), inverses)]):
        one = kfac.batch_execute(tf.identity(step), inverses, batch_size=1)
    with v1.control_dependencies(one):
        return optimizer.minimize(loss, global_step=global_step)


def _step_after(updates: Updates, global_step: Any) -> Any:
    """Returns the global step, int64 [], once the updates are made.

    The identity is what waits: a conditional may start as soon as its inputs are there.
    """
    with v1.control_dependencies([update() for update in updates]):
        return tf.identity(global_step.read_value())


def _run_if(condition: Any, updates: Updates) -> Any:
    """Makes the updates if the condition, a bool [], holds; returns it when they are made."""

    def run() -> Any:
        with v1.name_scope("updates"), v1.control_dependencies([update() for update in updates]):
            return tf.constant(True)

    return tf.cond(condition, run, lambda: tf.constant(False))
