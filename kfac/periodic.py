"""A K-FAC optimizer that refreshes its own curvature every so many steps.

Only decides when: averages, then inverses, then the step, each with what the one before has made,
and in a burn-in nothing but averages. A step that needs nothing new of them is computed beside the
averages, but made after them. Everything else is `kfac.optimizer`'s. This is the class that most
programs use.
"""

import numbers
import typing
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_number, check_period
from kfac.optimizer import KfacOptimizer
from kfac.placement import assign_by_cost
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.state import (
    Assignment,
    assign_all,
    is_resource,
    known_after,
    make_counter,
    read,
)

v1 = tf.compat.v1


class _Due(NamedTuple):
    """What a run is to do; each a bool [], or a Python True where it never differs.

    Attributes:
      step: Whether to make a step, or else to burn in.
      averages: Whether to update the averages.
    """

    step: Tensor | bool
    averages: Tensor | bool


class _Refresh(NamedTuple):
    """Ops that refresh the curvature when that is due.

    Attributes:
      averages: Updates the averages.
      inverses: Updates the inverses, after the averages. Need not wait for these otherwise.
    """

    averages: Operation
    inverses: Operation


@typing.final
class PeriodicInvCovUpdateKfacOpt(KfacOptimizer):
    """`KfacOptimizer` whose step first updates averages and inverses, when they are due."""

    def __init__(
        self,
        invert_every: Scalar = 10,
        cov_update_every: int = 1,
        num_burnin_steps: int = 0,
        *,
        spread_inverses: bool = False,
        cov_ema_decay: Scalar = 0.95,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
            Variable [], or a function that returns one of these.
          cov_update_every: Steps between two updates of the averages, ≥ 1.
          num_burnin_steps: How many runs at the beginning only update the averages, giving all
            batches the same weight. Weights, velocities, `counter` and the global step stay as
            they are. Here also where a wrapper calls `apply_gradients`.
          spread_inverses: Whether to compute all inverses at the first step, and from then on some
            of them in each step, so that no step pays for all: each is computed every
            `invert_every` steps, which must be an int then.
          cov_ema_decay: Weight of the past per step, in [0, 1]; raised to the power
            `cov_update_every` for each update.
          **kwargs: The other arguments of `KfacOptimizer`.

        Raises:
          ValueError: A number is out of its range, inverses cannot be spread, or as in
            `KfacOptimizer`.
        """
        is_static = isinstance(invert_every, numbers.Real)
        if is_static or spread_inverses:
            check_period("invert_every", invert_every)
        check_period("cov_update_every", cov_update_every)
        if num_burnin_steps != 0:
            check_period("num_burnin_steps", num_burnin_steps)
        check_number("cov_ema_decay", cov_ema_decay, "in [0, 1]", lambda x: 0 <= x <= 1)
        super().__init__(cov_ema_decay=decay_per_update(cov_ema_decay, cov_update_every), **kwargs)
        self._invert_every = called_once(invert_every)
        self._cov_update_every = cov_update_every
        self._num_burnin_steps = num_burnin_steps
        self._spread_inverses = spread_inverses
        self._begins_with_identity = False
        self._burnin_counter: Variable = None
        interval = self.damping_adaptation_interval
        if kwargs.get("adapt_damping") and is_static and interval % invert_every:
            warnings.warn(
                f"K-FAC adapts its damping every {interval} steps, but inverts every "
                f"{invert_every}: some changes of the damping reach the inverses late. Make "
                "damping_adaptation_interval a multiple of invert_every.",
                stacklevel=2,
            )

    def variables(self) -> list[Variable]:
        """Returns all state of the optimizer. Empty before it is made."""
        counters = [] if self._burnin_counter is None else [self._burnin_counter]
        return [*super().variables(), *counters]

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Updates averages and inverses if they are due, then makes one step.

        Args:
          grads_and_vars: As in `KfacOptimizer.apply_gradients`.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: As in `KfacOptimizer.apply_gradients`.
        """
        pairs = self.check_gradients(grads_and_vars)
        refresh = self._refresh()
        self._awaited = [refresh.averages]
        with v1.control_dependencies([refresh.inverses]):
            if not self._num_burnin_steps:
                return super().apply_gradients(pairs, global_step=global_step, name=name)
            step = super().apply_gradients(pairs)
            return self._count_burnin(step, global_step, name)

    def accumulate_statistics(self) -> Operation:
        """Returns an op that adds the current batch to what the next update of averages is made of.

        For updates that follow several micro-batches: run it once for each of them, the last one
        too, and the step after the last. The averages then get the statistics of one batch that
        has all their examples; gradients are for the caller to add up. Where no update of averages
        is due it does nothing. Must be called before `apply_gradients`.
        """
        return self._estimator.make_accumulation_op(self._due().averages)

    def kfac_update_ops(self) -> Operation:
        """Returns an op that updates averages, then inverses, each when it is due."""
        return tf.group(*self._refresh())

    def _refresh(self) -> _Refresh:
        due = self._due()
        self._makes_step = due.step
        averages = self._estimator.make_cov_update_op(due.averages, should_decay=due.step)
        variables = [*self.get_cov_vars(), *self.get_inv_vars()]
        is_apart = not self._step_reads_averages() and all(map(is_resource, variables))
        with v1.control_dependencies([] if is_apart else [averages]):
            before_step = self.maybe_pre_update_adapt_damping()
            with v1.control_dependencies([before_step]):
                return _Refresh(averages, self._update_inverses(due.step, averages))

    def _due(self) -> _Due:
        step = read(self.counter)
        averages = is_due(step, self._cov_update_every)
        if not self._num_burnin_steps:
            return _Due(True, averages)
        is_burnin = read(self._burnin_runs()) < self._num_burnin_steps
        return _Due(
            step=tf.logical_not(is_burnin),
            averages=True if averages is True else tf.logical_or(is_burnin, averages),
        )

    def _burnin_runs(self) -> Variable:
        if self._burnin_counter is None:
            with tf.init_scope():
                self._burnin_counter = make_counter("burnin_counter")
        return self._burnin_counter

    def _count_burnin(
        self, step: Operation, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Counts a run either as one of the burn-in or as a global step."""
        made = tf.cast(self._makes_step, tf.int64)
        runs = read(self._burnin_runs())
        with v1.control_dependencies([step, made, runs]):
            counts = [Assignment(self._burnin_runs(), runs + 1 - made)]
            if global_step is not None:
                before = read(global_step)
                counts.append(Assignment(global_step, before + tf.cast(made, before.dtype)))
            return assign_all(counts, name=name)

    def _update_inverses(self, makes_step: Tensor | bool, averages: Operation) -> Operation:
        step = read(self.counter)
        if not self._spread_inverses or self._invert_every == 1:
            due = _both(makes_step, is_due(step, self._invert_every))
            return self._updated_inverses(due, averages)
        is_first = tf.equal(step, 0)
        phase = step % self._invert_every
        updates = []
        for number, indices in enumerate(self._shares()):
            due = _both(makes_step, tf.logical_or(is_first, tf.equal(phase, number)))
            updates.append(self._updated_inverses(due, averages, indices))
        return tf.group(*updates)

    def _updated_inverses(
        self, due: Tensor | bool, averages: Operation, indices: Sequence[int] | None = None
    ) -> Operation:
        """Updates some inverses, after the averages; if it is not due, nothing has to wait."""
        if due is not True:
            return self._estimator.make_inv_update_op(known_after(due, averages), indices)
        with v1.control_dependencies([averages]):
            return self._estimator.make_inv_update_op(due, indices)

    def _shares(self) -> list[list[int]]:
        """Returns the numbers of the factors to invert in each step of a period, by cost."""
        phases = [str(number) for number in range(self._invert_every)]
        chosen = assign_by_cost([factor.inverse_cost for factor in self.factors], phases)
        shares = [[i for i, at in enumerate(chosen) if at == phase] for phase in phases]
        return [share for share in shares if share]


def _both(first: Tensor | bool, second: Tensor | bool) -> Tensor | bool:
    if first is True:
        return second
    return first if second is True else tf.logical_and(first, second)
