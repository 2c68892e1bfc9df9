"""One K-FAC step, in the order of the paper.

    fold          A ← βA + (1 − β)·E[aaᵀ], and G likewise, if that is due      §5
    refresh       (A + π√λ·I)⁻¹ and (G + √λ/π·I)⁻¹, if that is due             §6.3
    precondition  M⁻¹g, which is A⁻¹VG⁻¹ for the gradient V of a layer         §4.2
    momentum      a step of M⁻¹g and of the step before                       §7
    apply         θ ← θ − step, if the step is finite
    judge         λ by ρ, the change of the loss over that of its model       §6.5

`KfacStep.make` does all six, in this order. A policy says what is due, see `kfac.update.refresh`; a
rule of `kfac.update.momentum` makes the step; one of `kfac.damping` judges it, and may have it
taken back. Called by the optimizer.

References:
  Martens & Grosse (2015), arXiv:1503.05671; the whole is its algorithm 2.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.damping.model_change import ModelChange
from kfac.damping.rule import DampingRule
from kfac.damping.training_loss import TrainingLoss
from kfac.estimator import FisherEstimator
from kfac.fisher_blocks.base import as_tuple
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.damped_functions import ITSELF
from kfac.linalg.vectors import Vector, make_packing, no_packing
from kfac.state import (
    CPU,
    Addition,
    assign_all,
    group,
    known_after,
    make_counter,
    read,
    run_if,
)
from kfac.update import health
from kfac.update.delayed_inverses import DelayedInverses
from kfac.update.descent import DescentThen
from kfac.update.finite_update import Update, update_if_finite
from kfac.update.momentum import Momentum, StepInputs
from kfac.update.refresh import Due, RefreshPolicy
from kfac.variables import name_of

v1 = tf.compat.v1

MakeStep: TypeAlias = Callable[[GradsAndVars, Variable | None, str | None], Operation]
"""A function with the arguments of `KfacStep.make`."""

COUNTERS = ("counter", "skipped_steps", "rejected_steps")
"""Steps that were made, skipped or taken back; that were not finite; that were taken back."""


@typing.final
@dataclasses.dataclass(eq=False, kw_only=True)
class KfacStep:
    """The step of a K-FAC optimizer: its parts, each called in its turn, and its counters.

    Attributes:
      name: Name scope of ops.
      estimator: The curvature.
      policy: Says what is due.
      multiply_inverse: Returns M⁻¹x for a vector x; each is (part, variable) of all variables.
      momentum: Turns preconditioned gradients into a step.
      make_velocities: Returns the velocity of each of some variables; makes them once.
      damping: Says what λ is, and may judge steps.
      change: Keeps Δq; None if it is never known.
      losses: The loss that is minimized.
      model_damping: λ', see `StepInputs.model_damping`; None means λ.
      decays: Returns True for a variable whose weights decay, if there is weight decay.
    """

    name: str
    estimator: FisherEstimator
    policy: RefreshPolicy
    multiply_inverse: Callable[[GradsAndVars], GradsAndVars]
    momentum: Momentum
    make_velocities: Callable[[Sequence[Variable]], list[Variable]]
    damping: DampingRule
    change: ModelChange | None
    losses: TrainingLoss
    model_damping: Scalar | None
    decays: Callable[[Variable], bool]

    def __post_init__(self) -> None:
        """Makes no ops or variables yet."""
        self._counters: dict[str, Variable] = {}
        self._before_step: Operation = None
        self._delayed: DelayedInverses | None = None

    def make(
        self, pairs: GradsAndVars, global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """Returns an op that makes one step, after what is due of the curvature.

        The step waits for the inverses. Only the change of the weights waits for the averages.

        Args:
          pairs: (gradient, variable) for every registered variable.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: A tower has another collection, or the damping cannot be adapted.
        """
        variables = [variable for _, variable in pairs]
        self.damping.check_variables(variables)
        self.losses.check()
        due, number = self._due()
        folded = self._fold(due)
        refreshed = self._refresh(due, number, folded)
        with (
            v1.control_dependencies(refreshed),
            v1.control_dependencies([self.prepare_damping(due.step)]),
        ):
            velocities = self.make_velocities(variables) if self.momentum.keeps_velocities else []
            known = [vectors.entries(gradient) for gradient, _ in pairs]
            start = self.estimator.times.begin("apply", after=[*known, *folded])
            with v1.name_scope(f"{self.name}/step"):
                inputs = self._inputs(pairs, velocities)
                vector, products = self._precondition(inputs)
                step = self.momentum.step(inputs, vector, products)
                update = update_if_finite(
                    step, inputs, velocities, due.step, number, self.damping, self.change
                )
            with v1.control_dependencies(folded):
                self._summarize(due.summaries_wait)
                # TensorFlow counts each run as a global step; so not where a run may make none.
                counted, own = (global_step, None) if due.step is True else (None, global_step)
                judge = functools.partial(self._judge, update, due, start, own)
                with v1.control_dependencies([*update.needed, start]):
                    descent = DescentThen(self.name, judge)
                    return descent.subtract(update.changes, variables, counted, name)

    def update_curvature(self) -> Operation:
        """Returns an op that folds the batch, then refreshes inverses, each when it is due."""
        due, number = self._due()
        folded = self._fold(due)
        return group(*folded, *self._refresh(due, number, folded))

    def accumulate(self) -> Operation:
        """Returns an op that adds the batch to the sums that will be folded, when that is due."""
        return self.estimator.make_accumulation_op(self._due()[0].averages)

    def prepare_damping(self, makes_step: Tensor | bool = True) -> Operation:
        """Returns an op that calibrates the damping, or adapts it by the step before.

        Does nothing unless the damping rule asks for it. It is made once: later calls return the
        same op. Every step waits for it.

        Args:
          makes_step: bool [], or a Python bool; see `Due`.
        """
        if self._before_step is None:
            self.make_variables()
            with v1.name_scope(f"{self.name}/before_step"):
                # A run that makes no step must not pass for the first one, nor end an interval.
                number = read(self.counter("counter"))
                with v1.device(CPU):
                    number = tf.where(makes_step, number, -1)
                self._before_step = self.damping.before_step(
                    number,
                    lambda: health.mean_curvature(self.estimator.blocks),
                    self.estimator.times.read,
                )
        return self._before_step

    # The parts of a step.

    def _due(self) -> tuple[Due, Tensor]:
        """Returns what is due in a run, and the number of steps before it, int64 []."""
        number = read(self.counter("counter"))
        return self.policy.due(number), number

    def _fold(self, due: Due) -> list[Operation]:
        """Returns an op that folds the batch into the averages when it is due; none if never."""
        if due.averages is False:
            return []
        return [self.estimator.make_cov_update_op(due.averages, should_decay=due.step)]

    def _refresh(self, due: Due, number: Tensor, folded: Sequence[Operation]) -> list[Operation]:
        """Returns an op that refreshes the inverses that are due; none if averages never are.

        It waits for the averages that inverses are computed from, and if none is due, for nothing.
        """
        if not folded:
            return []
        estimator, averages = self.estimator, folded[0]
        with (
            v1.control_dependencies(folded if self._reads_averages else []),
            v1.control_dependencies([self.prepare_damping(due.step)]),
        ):
            if due.delay:
                self._delayed = self._delayed or DelayedInverses(estimator, due.delay)
                return [self._delayed.update(number, due.inverses, due.step, averages)]
            if due.spread:
                shares = due.spread.shares(estimator.blocks, estimator.factors)
                each = due.spread.due(number, len(shares))
                with v1.device(CPU):
                    each = each if due.step is True else tf.logical_and(due.step, each)
                    each = tf.logical_and(each, known_after(tf.reduce_any(each), averages))
                return [estimator.make_inv_update_op_by_shares(each, shares)]
            if due.inverses is True:
                with v1.control_dependencies(folded):
                    return [estimator.make_inv_update_op()]
            return [estimator.make_inv_update_op(known_after(due.inverses, averages))]

    @property
    def _reads_averages(self) -> bool:
        """True if a step depends on averages directly, not only on stored inverses."""
        damping, by_products = self.damping, self.momentum.multiplies_for_model
        if damping.adapts and (damping.calibrates or by_products):
            return True
        return not all(factor.keeps_inverses for factor in self.estimator.factors)

    def _inputs(self, pairs: GradsAndVars, velocities: Sequence[Variable]) -> StepInputs:
        """Reads λ and the velocities, and packs vectors if the momentum rule takes such."""
        variables, estimator = [variable for _, variable in pairs], self.estimator
        sparse = [block.params for block in estimator.blocks if block.multiplies_slices]
        keep = {param.ref() for params in sparse for param in as_tuple(params)}
        gradients = [vectors.as_vector(gradient, v, v.ref() in keep) for gradient, v in pairs]
        packs, model_damping = self.momentum.takes_packed, self.model_damping
        dtype = tensor_ops.statistics_dtype(gradients[0].dtype)
        damping = tensor_ops.as_scalar(self.damping.read(), dtype)
        packing = make_packing(gradients, variables) if packs else no_packing(gradients)

        def multiply(given: Sequence[Vector]) -> list[Vector]:
            products = estimator.multiply_function(
                ITSELF,
                list(zip(packing.unpack(given), variables, strict=True)),
                from_identity=self.policy.from_identity,
            )
            return packing.pack([product for product, _ in products])

        return StepInputs(
            gradients=packing.pack(gradients),
            gradient_parts=gradients,
            variables=variables,
            weights=lambda: packing.pack([self._decaying(variable) for variable in variables]),
            velocities=packing.pack([read(velocity, not packs) for velocity in velocities])
            if velocities
            else [],
            packing=packing,
            multiply=multiply,
            damping=damping,
            model_damping=tensor_ops.as_scalar(
                damping if model_damping is None else model_damping, dtype
            ),
        )

    def _decaying(self, variable: Variable) -> Tensor:
        """Returns the weights of a variable that decay: its own, or zeros."""
        if self.decays(variable):
            return read(variable, copies=False)
        with v1.device(variable.device):
            return tf.zeros(variable.shape, variable.dtype.base_dtype)

    def _precondition(self, inputs: StepInputs) -> tuple[list[Vector], list[Vector]]:
        """Returns (x, M⁻¹x) for the vector x that the momentum rule has preconditioned.

        Raises:
          ValueError: A user's method has returned no product for a variable.
        """
        vector, parts = inputs.gradients, inputs.gradient_parts
        velocities = self.momentum.velocities_to_precondition(inputs)
        if velocities is not None:
            vector, parts = velocities, inputs.packing.unpack(velocities)
        pairs = self.multiply_inverse(list(zip(parts, inputs.variables, strict=True)))
        products = {v.ref(): product for product, v in pairs if product is not None}
        missing = [name_of(v) for v in inputs.variables if v.ref() not in products]
        if missing:
            raise ValueError(
                f"multiply_preconditioner returned no product for {', '.join(missing)}. It must "
                "return a pair (product, variable) for every pair (vector, variable) that it is "
                "given."
            )
        return vector, inputs.packing.pack([products[v.ref()] for v in inputs.variables])

    def _judge(
        self,
        update: Update,
        due: Due,
        start: Tensor,
        global_step: Variable | None,
        changed: Sequence[Operation],
    ) -> list[Operation]:
        """Returns ops that follow the change of the weights: judgement, velocities and counters.

        Args:
          update: The update.
          due: What was due in this run.
          start: Time at which the step began; see `PhaseTimes`.
          global_step: A counter of steps beside our own, or None.
          changed: Operations that change the weights.
        """
        times = self.estimator.times
        # As one, so that the ops that wait for them have one edge each and not hundreds.
        with v1.control_dependencies([group(*changed)]):
            verdict = self.damping.verdict(update.prediction, times.read)
            is_kept, chosen = update.is_made, []
            rejected = tf.zeros([], tf.bool) if verdict.rejected is None else verdict.rejected
            if update.before:
                chosen.append(run_if(rejected, functools.partial(assign_all, update.before)))
                with v1.device(CPU):
                    is_kept = tf.logical_and(is_kept, tf.logical_not(rejected))
            if update.state:
                chosen.append(run_if(is_kept, functools.partial(assign_all, update.state)))
            with v1.device(CPU):
                made = tf.convert_to_tensor(due.step)
                skipped = tf.logical_and(made, tf.logical_not(update.is_finite))
            counts = [
                *map(_count, map(self.counter, COUNTERS), (made, skipped, rejected)),
                *([] if global_step is None else [_count(global_step, made)]),
            ]
            # Δq stays known even if the step is taken back, beside the ρ that it led to.
            noted = assign_all([*verdict.state, *update.kept_change, *counts, *due.state])
        done = group(*changed, *chosen, noted)
        return [done, times.end("apply", start, done)]

    # Variables and summaries.

    def counter(self, name: str) -> Variable:
        """Returns the int64 variable [] of one of `COUNTERS`; makes it at first use."""
        if name not in self._counters:
            with tf.init_scope():
                self._counters[name] = make_counter(name)
        return self._counters[name]

    @property
    def variables(self) -> list[Variable]:
        """All state but the velocities. Empty before any is made."""
        if not self._counters:
            return []
        return [
            *self._counters.values(),
            *self.damping.variables,
            *(self.change.variables if self.change else []),
            *self.momentum.variables,
            *self.estimator.cov_variables,
            *self.estimator.inv_variables,
            *self.policy.variables,
            *(self._delayed.variables if self._delayed else []),
        ]

    def make_variables(self) -> None:
        """Makes all variables of curvature, rules and counters, once."""
        self.estimator.make_vars()
        with tf.init_scope():
            self.damping.make_variables()
            if self.change:
                self.change.make_variables()
            self.momentum.make_variables()
        for name in COUNTERS:
            self.counter(name)

    def _summarize(self, waits: bool) -> None:
        if v1.get_default_graph().building_function:
            return  # Nobody can fetch a summary op of a function.
        estimator = self.estimator
        with v1.control_dependencies([] if waits else None):
            counters = {name: read(self.counter(name)) for name in COUNTERS[1:]}
            scalars = {
                **self.damping.summaries,
                **self.momentum.summaries,
                **(self.change.summaries if self.change else {}),
                **counters,
            }
            health.summarize(scalars, estimator.blocks, estimator.factors, estimator.times)


def _count(variable: Variable, flag: Tensor) -> Addition:
    with v1.device(CPU):
        return Addition(variable, tf.cast(flag, variable.dtype.base_dtype))
