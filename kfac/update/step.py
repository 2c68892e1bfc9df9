"""One K-FAC step, in the order of the paper.

    fold          A ← βA + (1 − β)·E[aaᵀ], and G likewise, if that is due      §5
    refresh       (A + π√λ·I)⁻¹ and (G + √λ/π·I)⁻¹, if that is due             §6.3
    precondition  M⁻¹g, which is A⁻¹VG⁻¹ for the gradient V of a layer         §4.2
    momentum      a step of M⁻¹g and of the step before                       §7
    apply         θ ← θ − step, if the step is finite
    judge         λ by ρ, the loss's change over the change that was predicted §6.5

`KfacStep.make` does all six. A policy of `kfac.update.refresh` says what is due. A momentum rule of
`kfac.update.momentum` lets `_precondition` multiply the gradients, or the velocities, by M⁻¹ and
makes the step of the products. A damping rule of `kfac.damping` judges the step, and may have it
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
from kfac.damping.adaptation import AdaptedDamping
from kfac.damping.interface import BeforeStep, DampingRule, ModelChange, Verdict
from kfac.damping.training_loss import TrainingLoss
from kfac.estimator import FisherEstimator
from kfac.fisher_blocks.base import as_tuple
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.damped_functions import ITSELF
from kfac.linalg.vectors import Vector, make_packing, no_packing
from kfac.protocols import AVERAGED_IN_ROUNDS
from kfac.state import (
    CPU,
    Addition,
    Assignment,
    Gate,
    assign_all,
    group,
    make_counter,
    read,
    run_if,
)
from kfac.update import health_report
from kfac.update.apply import DescentThen, Update, finite_update
from kfac.update.averaged_in_rounds import AveragedFactors
from kfac.update.delayed_inverses import DelayedInverses
from kfac.update.given_optimizer import GivenOptimizer
from kfac.update.momentum import Momentum, Step, StepInputs
from kfac.update.refresh import Due, RefreshPolicy
from kfac.variables import name_of

v1 = tf.compat.v1

MakeStep: TypeAlias = Callable[[GradsAndVars, Variable | None, str | None], Operation]
"""A function with the arguments of `KfacStep.make`."""

COUNTERS = ("counter", "skipped_steps", "rejected_steps")
"""Their values: all steps, steps that were not finite, and steps that were taken back."""


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
      damping: Says what λ is.
      judge: The same rule, if it judges steps; else None.
      change: Keeps Δq; None if it is never known.
      losses: The loss that is minimized.
      model_damping: λ', see `StepInputs.model_damping`; None means λ.
      decays: Returns True for a variable whose weights decay, if there is weight decay.
      given: Another optimizer that makes the step of the changes; None subtracts them.
    """

    name: str
    estimator: FisherEstimator
    policy: RefreshPolicy
    multiply_inverse: Callable[[GradsAndVars], GradsAndVars]
    momentum: Momentum
    make_velocities: Callable[[Sequence[Variable]], list[Variable]]
    damping: DampingRule
    judge: AdaptedDamping | None
    change: ModelChange | None
    losses: TrainingLoss
    model_damping: Scalar | None
    decays: Callable[[Variable], bool]
    given: GivenOptimizer | None

    def __post_init__(self) -> None:
        """Makes no ops or variables yet."""
        self._counters: dict[str, Variable] = {}
        self._before_step: BeforeStep | None = None
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
        if self.judge:
            self.judge.check_variables(variables)
        self.losses.check()
        if not v1.get_default_graph().building_function:
            averaged = AveragedFactors(self.estimator, self._inverses_between_steps)
            v1.add_to_collection(AVERAGED_IN_ROUNDS, averaged)
        number = read(self.counter("counter"))
        due = self.policy.due(number)
        folded = self._fold(due)
        refreshed = self._refresh(due, number, folded)
        with (
            v1.control_dependencies(refreshed),
            v1.control_dependencies([self.prepare_damping(due.step)]),
        ):
            velocities = self.make_velocities(variables) if self.momentum.keeps_velocities else []
            gradients = [vectors.entries(gradient) for gradient, _ in pairs]
            start = self.estimator.times.begin("apply", after=[*gradients, *folded])
            with v1.name_scope(f"{self.name}/step"):
                inputs = self._inputs(pairs, velocities)
                step = self.momentum.step(inputs)
                update = finite_update(step, inputs, velocities, due.step)
                if self.change:
                    update = self._with_prediction(update, step, inputs, number, self.change)
            with v1.control_dependencies(folded):
                self._summarize(due.summaries_wait)
                # TensorFlow's optimizers add one to the global step in every run. Where a run may
                # make no step, `_judge` counts.
                counts_each = due.step is True and self.given is None
                by_judge = None if counts_each else global_step
                judge = functools.partial(self._judge, update, due, start, by_judge)
                values = [value for _, value in (*update.before, *update.kept_change)]
                with v1.control_dependencies([*(update.prediction or ()), *values, start]):
                    if self.given:
                        return self.given.make(update, inputs, self._layers, judge, name)
                    descent = DescentThen(self.name, judge)
                    by_descent = global_step if counts_each else None
                    return descent.subtract(update.changes, variables, by_descent, name)

    def update_curvature(self) -> Operation:
        """Returns an op that folds the batch, then refreshes inverses, each when it is due."""
        number = read(self.counter("counter"))
        due = self.policy.due(number)
        folded = self._fold(due)
        return group(*folded, *self._refresh(due, number, folded))

    def accumulate(self) -> Operation:
        """Returns an op that adds the batch to the sums that will be folded, when that is due."""
        due = self.policy.due(read(self.counter("counter")))
        return self.estimator.make_accumulation_op(due.averages)

    def prepare_damping(self, makes_step: Tensor | bool = True) -> Operation:
        """Returns an op that calibrates the damping, or adapts it by the step before.

        Does nothing unless the damping rule asks for it. It is made once: later calls return the
        same op. Every step waits for it. `makes_step` is the `step` of `Due`.
        """
        if self._before_step is not None:
            return self._before_step.done
        self.make_variables()
        judge, estimator = self.judge, self.estimator
        with v1.name_scope(f"{self.name}/before_step"):
            if judge is None:
                self._before_step = BeforeStep(group())
            else:
                # Step 0 calibrates, and each interval ends with a judgement: a run that makes no
                # step is to do neither.
                number = read(self.counter("counter"))
                with v1.device(CPU):
                    number = tf.where(makes_step, number, -1)
                self._before_step = judge.before_step(
                    number,
                    lambda: health_report.mean_curvature(estimator.blocks),
                    estimator.times.read,
                )
        return self._before_step.done

    def inverse_damping(self) -> Scalar:
        """Returns λ as inverses use it, after the active control dependencies.

        After `prepare_damping` it is that from before a judgement in the same run, as in
        tensorflow/kfac. So a step that is judged at the start of the next one changes inverses from
        the next period on. A calibration in the same run counts.
        """
        before = self._before_step
        known = None if before is None else before.inverse_damping
        return self.damping.read() if known is None else known

    def _inverses_between_steps(self) -> Operation:
        """Returns an op that recomputes all inverses with λ as it is kept."""
        before, self._before_step = self._before_step, None
        try:
            return self.estimator.refresh(range(len(self.estimator.factors)))
        finally:
            self._before_step = before

    # The parts of a step.

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
                    known = Gate(tf.reduce_any(each), "known_after").known_after(averages)
                    each = tf.logical_and(each, known)
                return [estimator.make_inv_update_op_by_shares(each, shares)]
            if due.inverses is True:
                with v1.control_dependencies(folded):
                    return [estimator.make_inv_update_op()]
            known = Gate(due.inverses, "known_after").known_after(averages)
            return [estimator.make_inv_update_op(known)]

    @property
    def _reads_averages(self) -> bool:
        """True if a step depends on averages directly, not only on stored inverses."""
        if self.judge and (self.judge.calibrates or self.momentum.multiplies_for_model):
            return True
        return not all(factor.keeps_inverses for factor in self.estimator.factors)

    def _inputs(self, pairs: GradsAndVars, velocities: Sequence[Variable]) -> StepInputs:
        """Reads λ and the velocities, and packs vectors if the momentum rule takes such."""
        variables, estimator = [variable for _, variable in pairs], self.estimator
        sparse = [block.params for block in estimator.blocks if block.multiplies_slices]
        keep = {param.ref() for params in sparse for param in as_tuple(params)}
        # Variables of no layer have their gradients as they are.
        known = {variable.ref() for layer in self._layers for variable in layer}
        keep.update(v.ref() for v in variables if v.ref() not in known)
        gradients = [vectors.as_vector(gradient, v, v.ref() in keep) for gradient, v in pairs]
        packs, model_damping = self.momentum.takes_packed, self.model_damping
        dtype = tensor_ops.statistics_dtype(gradients[0].dtype)
        damping = tensor_ops.as_scalar(self.damping.read(), dtype)
        packing = make_packing(gradients, variables) if packs else no_packing(gradients)
        return StepInputs(
            gradients=packing.pack(gradients),
            gradient_parts=gradients,
            variables=variables,
            weights=lambda: packing.pack([self._decaying(variable) for variable in variables]),
            velocities=packing.pack([read(velocity, not packs) for velocity in velocities])
            if velocities
            else [],
            packing=packing,
            precondition=lambda parts: packing.pack(self._precondition(parts, variables)),
            multiply=lambda x: packing.pack(self._multiply(packing.unpack(x), variables)),
            damping=damping,
            model_damping=tensor_ops.as_scalar(
                damping if model_damping is None else model_damping, dtype
            ),
        )

    @property
    def _layers(self) -> list[tuple[Variable, ...]]:
        """The variables of each block."""
        return [as_tuple(block.params) for block in self.estimator.blocks]

    def _decaying(self, variable: Variable) -> Tensor:
        """Returns the weights of a variable that decay: its own, or zeros."""
        if self.decays(variable):
            return read(variable, copies=False)
        with v1.device(variable.device):
            return tf.zeros(variable.shape, variable.dtype.base_dtype)

    def _precondition(
        self, vector: Sequence[Vector], variables: Sequence[Variable]
    ) -> list[Vector]:
        """Returns M⁻¹x for a vector x.

        Raises:
          ValueError: A user's method has returned no product for a variable.
        """
        pairs = self.multiply_inverse(list(zip(vector, variables, strict=True)))
        products = {v.ref(): product for product, v in pairs if product is not None}
        missing = [name_of(v) for v in variables if v.ref() not in products]
        if missing:
            raise ValueError(
                f"multiply_preconditioner returned no product for {', '.join(missing)}. It must "
                "return a pair (product, variable) for every pair (vector, variable) that it is "
                "given."
            )
        return [products[v.ref()] for v in variables]

    def _multiply(self, vector: Sequence[Vector], variables: Sequence[Variable]) -> list[Vector]:
        """Returns Mx for a vector x."""
        pairs, from_identity = list(zip(vector, variables, strict=True)), self.policy.from_identity
        products = self.estimator.multiply_function(ITSELF, pairs, from_identity=from_identity)
        return [product for product, _ in products]

    def _with_prediction(
        self, update: Update, step: Step, inputs: StepInputs, number: Tensor, change: ModelChange
    ) -> Update:
        """Returns an update with the predicted change of the loss, old weights, and Δq to keep.

        `number`, int64 [], is that of the steps before it.
        """
        known = step.model_change() if self.momentum.knows_model_change else None
        if self.judge:
            compute = step.model_change if known is None else lambda: known
            dtype, is_made, variables = inputs.damping.dtype, update.is_made, inputs.variables
            update = update._replace(
                prediction=self.judge.predict(number, is_made, compute, dtype),
                before=[Assignment(v, read(v)) for v in variables if self.judge.may_reject],
            )
        if known is not None:
            return update._replace(kept_change=change.kept(update.is_made, known))
        if update.prediction:
            predicted = update.prediction
            return update._replace(kept_change=change.kept(predicted.due, predicted.model_change))
        return update

    def _judge(
        self,
        update: Update,
        due: Due,
        start: Tensor,
        global_step: Variable | None,
        changed: Sequence[Operation],
    ) -> list[Operation]:
        """Returns ops that follow the change of the weights: judgement, velocities and counters.

        `start` is the time at which the step began, see `PhaseTimes`; `global_step` a counter of
        steps beside our own, or None. `changed` are the operations that change the weights.
        """
        times, verdict = self.estimator.times, Verdict([], None)
        # One op stands for all changes: what waits for them has one edge and not hundreds.
        with v1.control_dependencies([group(*changed)]):
            if self.judge:
                verdict = self.judge.verdict(update.prediction, times.read)
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
                counts = dict(zip(COUNTERS, (made, skipped, rejected), strict=True))
                counters = [(self.counter(name), flag) for name, flag in counts.items()]
                counters += [] if global_step is None else [(global_step, made)]
                counted = [Addition(v, tf.cast(x, v.dtype.base_dtype)) for v, x in counters]
            # Δq is kept even if the step is taken back: summaries show it beside ρ.
            noted = assign_all([*verdict.state, *update.kept_change, *counted, *due.state])
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
            if self.judge:
                self.judge.make_variables()
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
            health_report.summarize(scalars, estimator.blocks, estimator.factors, estimator.times)
