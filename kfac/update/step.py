"""One K-FAC step: precondition, add momentum, change the weights, judge the change.

Gradients are multiplied by the inverse curvature. A momentum rule makes a step of the products. The
step is made if it is finite. A damping rule may judge it afterwards, and have it taken back. Does
not decide when the curvature is updated: that is a policy's, see `kfac.update.refresh`. Built by
the optimizer's constructor, called by the policy.
"""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.damping.model_change import ModelChange
from kfac.damping.rule import DampingRule, StepPrediction
from kfac.damping.training_loss import TrainingLoss
from kfac.estimator import FisherEstimator
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.damped_functions import ITSELF
from kfac.linalg.finite_steps import is_finite_step
from kfac.linalg.packing import make_packing, no_packing
from kfac.linalg.vectors import Vector
from kfac.state import CPU, Assignment, assign_all, group, make_counter, read, run_if
from kfac.update import health
from kfac.update.momentum import Momentum, Step, StepInputs
from kfac.update.preconditioner import as_vectors
from kfac.variables import CapturedVariable, components_of

v1 = tf.compat.v1


class StepConditions(NamedTuple):
    """Conditions under which a run makes a step; set by the refresh policy.

    Attributes:
      makes_step: bool [], or a Python bool. When it is false the run changes and counts nothing.
      before: Operations that end before the step is computed.
      beside: Operations that end before the weights change. The step may be computed beside them.
      summaries_wait: True if summaries come after `before` and other control dependencies.
    """

    makes_step: Tensor | bool = True
    before: Sequence[Operation] = ()
    beside: Sequence[Operation] = ()
    summaries_wait: bool = True


Precondition: TypeAlias = Callable[[Sequence[Vector], Sequence[Variable]], list[Vector]]
"""A function that returns M⁻¹x for a vector x, given x and all registered variables."""


class StepRules(NamedTuple):
    """Parts of a step: its rules for momentum and damping.

    Attributes:
      momentum: Turns preconditioned gradients into a step.
      damping: Says what λ is, and may judge steps.
      change: Keeps Δq; None if it is never known.
      losses: The loss that is minimized.
      model_damping: λ', see `StepInputs.model_damping`; None means λ.
      from_identity: True if a block that has no inverse yet counts as a damped identity matrix,
        false if products with its inverse are zero.
      decays: Returns True for a variable whose weights decay, if there is weight decay.
    """

    momentum: Momentum
    damping: DampingRule
    change: ModelChange | None
    losses: TrainingLoss
    model_damping: Scalar | None
    from_identity: bool
    decays: Callable[[Variable], bool]

    @property
    def damping_reads_averages(self) -> bool:
        """True if λ is calibrated, or adapts by products with M."""
        by_products = self.momentum.multiplies_for_model
        return self.damping.adapts and (self.damping.calibrates or by_products)


class _Update(NamedTuple):
    """One update, before it is made.

    Attributes:
      changes: Amounts that are subtracted from the variables, zero unless `is_made`.
      state: New values of velocities and of the momentum rule's variables.
      makes_step: bool [], true if this run makes a step; see `StepConditions`.
      is_finite: bool [], true if the update is finite.
      is_made: bool [], true if both are.
      before: The variables and their values, if it may be taken back.
      prediction: Predicted change of the loss, by which the damping rule judges it.
      keep_change: Returns the assignment that keeps Δq, or nothing.
      start: Time at which it began; see `PhaseTimes`.
    """

    changes: list[Vector]
    state: list[Assignment]
    makes_step: Tensor | bool
    is_finite: Tensor
    is_made: Tensor
    before: list[Assignment]
    prediction: StepPrediction | None
    keep_change: Callable[[], list[Assignment]]
    start: Tensor

    @property
    def needed(self) -> list[Tensor]:
        """Tensors that must be known before the weights change."""
        judged = [] if self.prediction is None else list(self.prediction)
        return [*judged, *(value for _, value in self.before), self.start]


@typing.final
class KfacStep:
    """The step of a K-FAC optimizer, and its counters."""

    def __init__(
        self,
        name: str,
        estimator: FisherEstimator,
        rules: StepRules,
        make_velocities: Callable[[Sequence[Variable]], list[Variable]],
        precondition: Precondition,
    ) -> None:
        """Makes no ops or variables.

        Args:
          name: Name scope of ops.
          estimator: The curvature.
          rules: Momentum and damping.
          make_velocities: Returns the velocity of each of some variables; makes them once.
          precondition: Multiplies vectors by the inverse curvature.
        """
        self._name = name
        self._estimator = estimator
        self._rules = rules
        self._make_velocities = make_velocities
        self._precondition = precondition
        self._counters: dict[str, Variable] = {}
        self._before_step: Operation = None

    def counter(self, name: str) -> Variable:
        """Returns the int64 variable [] of a counter; makes it at first use.

        Args:
          name: "counter" for the steps that were made, skipped or taken back, "skipped_steps" for
            those that were not finite, "rejected_steps" for those that were taken back.
        """
        if name not in self._counters:
            self._counters[name] = make_counter(name)
        return self._counters[name]

    def read_counter(self) -> Tensor:
        """Returns the number of steps that were made, skipped or taken back, int64 [], now."""
        return read(self.counter("counter"))

    @property
    def variables(self) -> list[Variable]:
        """Counters and the state of both rules. Empty before any is made."""
        if not self._counters:
            return []
        counters = self._counters.values()
        rules = self._rules
        change = rules.change.variables if rules.change else []
        return [*counters, *rules.damping.variables, *change, *rules.momentum.variables]

    @property
    def reads_averages(self) -> bool:
        """Returns True if a step depends on averages directly, not only on stored inverses."""
        if self._rules.damping_reads_averages:
            return True
        return not all(factor.keeps_inverses for factor in self._estimator.factors)

    def make_variables(self) -> None:
        """Makes all variables of curvature, rules and counters, once."""
        self._estimator.make_vars()
        with tf.init_scope():
            self._rules.damping.make_variables()
            if self._rules.change:
                self._rules.change.make_variables()
            self._rules.momentum.make_variables()
            for name in ("counter", "skipped_steps", "rejected_steps"):
                self.counter(name)

    def prepare_damping(self, makes_step: Tensor | bool = True) -> Operation:
        """Returns an op that calibrates the damping, or adapts it by the step before.

        Does nothing unless the damping rule asks for it. It is made once: later calls return the
        same op. Every step waits for it.

        Args:
          makes_step: As in `StepConditions`.
        """
        if self._before_step is None:
            self.make_variables()
            with v1.name_scope(f"{self._name}/before_step"):
                # A run that makes no step must not pass for the first one, nor end an interval.
                with v1.device(CPU):
                    step = tf.where(makes_step, self.read_counter(), -1)
                self._before_step = self._rules.damping.before_step(
                    step,
                    lambda: health.mean_curvature(self._estimator.blocks),
                    self._estimator.times.read,
                )
        return self._before_step

    def apply(
        self,
        pairs: GradsAndVars,
        conditions: StepConditions,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Returns an op that makes one step, with the inverses as they are.

        Args:
          pairs: (gradient, variable) for every registered variable.
          conditions: Operations that the step waits for, and if it is made.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: A tower has another collection, or the damping cannot be adapted.
        """
        variables = [variable for _, variable in pairs]
        self._rules.damping.check_variables(variables)
        self._rules.losses.check()
        with (
            v1.control_dependencies(conditions.before),
            v1.control_dependencies([self.prepare_damping(conditions.makes_step)]),
        ):
            velocities = self._velocities(variables)
            known = [vectors.entries(gradient) for gradient, _ in pairs]
            start = self._estimator.times.begin("apply", after=[*known, *conditions.beside])
            with v1.name_scope(f"{self._name}/step"):
                inputs = self._inputs(pairs, velocities)
                update = self._compute(inputs, velocities, conditions.makes_step, start)
            with v1.control_dependencies(conditions.beside):
                self._summarize(conditions.summaries_wait)
                with v1.control_dependencies(update.needed):
                    return self._make(update, variables, global_step, name)

    def _velocities(self, variables: Sequence[Variable]) -> list[Variable]:
        return self._make_velocities(variables) if self._rules.momentum.keeps_velocities else []

    def _inputs(self, pairs: GradsAndVars, velocities: Sequence[Variable]) -> StepInputs:
        gradients = as_vectors(self._estimator.blocks, pairs)
        variables = [variable for _, variable in pairs]
        dtype = tensor_ops.statistics_dtype(gradients[0].dtype)
        damping = tensor_ops.as_scalar(self._rules.damping.read(), dtype)
        model_damping = self._rules.model_damping
        packs = self._rules.momentum.takes_packed
        packing = make_packing(gradients, variables) if packs else no_packing(gradients)
        packed = packing.pack(gradients)

        def precondition(given: Sequence[Vector]) -> list[Vector]:
            # The blocks look at how gradients were computed, which packing would hide.
            parts = gradients if given is packed else packing.unpack(given)
            return packing.pack(self._precondition(parts, variables))

        return StepInputs(
            gradients=packed,
            variables=variables,
            weights=lambda: packing.pack([self._decaying(variable) for variable in variables]),
            velocities=packing.pack([read(velocity, not packs) for velocity in velocities])
            if velocities
            else [],
            packing=packing,
            precondition=precondition,
            multiply=lambda given: packing.pack(self._multiply(packing.unpack(given), variables)),
            damping=damping,
            model_damping=tensor_ops.as_scalar(
                damping if model_damping is None else model_damping, dtype
            ),
        )

    def _decaying(self, variable: Variable) -> Tensor:
        """Returns the weights of a variable that decay: its own, or zeros."""
        if self._rules.decays(variable):
            return read(variable, copies=False)
        with v1.device(variable.device):
            return tf.zeros(variable.shape, variable.dtype.base_dtype)

    def _multiply(self, given: Sequence[Vector], variables: Sequence[Variable]) -> list[Vector]:
        """Returns Mx for a vector x."""
        products = self._estimator.multiply_function(
            ITSELF,
            list(zip(given, variables, strict=True)),
            from_identity=self._rules.from_identity,
        )
        return [product for product, _ in products]

    def _compute(
        self,
        inputs: StepInputs,
        velocities: Sequence[Variable],
        makes_step: Tensor | bool,
        start: Tensor,
    ) -> _Update:
        """Computes a step, replaced by "no change" if it is not finite or not to be made."""
        step = self._rules.momentum.step(inputs)
        raw = step.raw if step.whole is None else [step.whole]
        is_finite = is_finite_step(step.rate, [*map(vectors.entries, raw)], _other_values(step))
        with v1.device(is_finite.device):
            is_made = tf.logical_and(is_finite, makes_step)
        unpack = inputs.packing.unpack
        moved = map(Assignment, velocities, unpack(step.velocities)) if velocities else []
        may_reject, change = self._rules.damping.may_reject, self._rules.change
        model_change = change.known(step.model_change) if change else step.model_change
        prediction = self._rules.damping.predict(
            self.read_counter(), is_made, model_change, inputs.dtype
        )
        return _Update(
            changes=unpack(_changes(is_made, step)),
            state=[*moved, *step.state],
            makes_step=makes_step,
            is_finite=is_finite,
            is_made=is_made,
            before=[Assignment(v, read(v)) for v in inputs.variables] if may_reject else [],
            prediction=prediction,
            keep_change=lambda: change.kept(is_made, prediction, model_change) if change else [],
            start=start,
        )

    def _make(
        self,
        update: _Update,
        variables: Sequence[Variable],
        global_step: Variable | None,
        name: str | None,
    ) -> Operation:
        """Changes the weights, then judges the change and notes it."""
        follow = functools.partial(self._finish, update)
        if any(isinstance(variable, CapturedVariable) for variable in variables):
            # TensorFlow's optimizers refuse mirrored variables where all of them are to change.
            pairs = zip(update.changes, variables, strict=True)
            changed = [
                _subtract(component, change)
                for change, variable in pairs
                for component in components_of(variable)
            ]
            return group(*follow(changed), name=name)
        descent = _DescentThen(self._name, follow)
        changes = list(zip(update.changes, variables, strict=True))
        return descent.apply_gradients(changes, global_step=global_step, name=name)

    def _finish(self, update: _Update, changed: Sequence[Operation]) -> list[Operation]:
        """Returns ops that follow the change of the weights: judgement, velocities and counters.

        Args:
          update: The update.
          changed: Operations that change the weights.
        """
        # As one, so that the ops that wait for them have one edge each and not hundreds.
        with v1.control_dependencies([group(*changed)]):
            verdict = self._rules.damping.verdict(update.prediction, self._estimator.times.read)
            is_kept, chosen = update.is_made, []
            rejected = tf.zeros([], tf.bool) if verdict.rejected is None else verdict.rejected
            if self._rules.damping.may_reject:
                take_back = functools.partial(assign_all, update.before)
                chosen.append(run_if(rejected, take_back))
                with v1.device(CPU):
                    is_kept = tf.logical_and(is_kept, tf.logical_not(rejected))
            if update.state:
                chosen.append(run_if(is_kept, functools.partial(assign_all, update.state)))
            counts = self._counts(update, rejected)
            # Δq stays known even if the step is taken back, beside the ρ that it led to.
            bookkeeping = assign_all([*verdict.state, *update.keep_change(), *counts])
        done = group(*changed, *chosen, bookkeeping)
        return [done, self._estimator.times.end("apply", update.start, done)]

    def _counts(self, update: _Update, rejected: Tensor) -> list[Assignment]:
        with v1.device(CPU):
            skipped = tf.logical_and(update.makes_step, tf.logical_not(update.is_finite))
            increments = {
                "counter": tf.convert_to_tensor(update.makes_step),
                "skipped_steps": skipped,
                "rejected_steps": rejected,
            }
        counts = []
        for name, increment in increments.items():
            before = read(self.counter(name))
            with v1.device(CPU):
                after = before + tf.cast(increment, tf.int64)
            counts.append(Assignment(self.counter(name), after))
        return counts

    def _summarize(self, waits: bool) -> None:
        if v1.get_default_graph().building_function:
            return  # Nobody can fetch a summary op of a function.
        with v1.control_dependencies([] if waits else None):
            counters = {name: read(variable) for name, variable in self._counters.items()}
            del counters["counter"]
            scalars = {
                **self._rules.damping.summaries,
                **self._rules.momentum.summaries,
                **(self._rules.change.summaries if self._rules.change else {}),
                **counters,
            }
            estimator = self._estimator
            health.summarize(scalars, estimator.blocks, estimator.factors, estimator.times)


def _subtract(variable: Variable, change: Vector) -> Operation:
    """Returns an op that subtracts a change from a resource variable."""
    with v1.device(variable.device):
        if isinstance(change, tf.IndexedSlices):
            return tf.raw_ops.ResourceScatterSub(
                resource=variable.handle, indices=change.indices, updates=change.values
            )
        one = tf.constant(1, change.dtype)
        return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=one, delta=change)


@typing.final
class _DescentThen(v1.train.GradientDescentOptimizer):
    """Subtracts changes from variables, then runs other ops, as one training op."""

    def __init__(
        self, name: str, follow: Callable[[Sequence[Operation]], Sequence[Operation]]
    ) -> None:
        """Takes a function that is given the changing ops and returns those to wait for."""
        super().__init__(1.0, name=name)
        self._follow = follow

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        return super()._finish(self._follow(update_ops), name_scope)


def _other_values(step: Step) -> list[Tensor]:
    """Returns what must be finite beside the changes."""
    velocities = [] if step.bounds_velocities else step.velocities
    return [*velocities, *(assignment.value for assignment in step.state)]


def _changes(is_made: Tensor, step: Step) -> list[Vector]:
    """Returns α·x, or zeros if the step is not made."""
    # Zeros to choose would be known beforehand, and kept: as many as there are weights.
    rates: dict[tuple[str, DType], Tensor] = {}

    def change(entries: Tensor) -> Tensor:
        key = entries.device, entries.dtype
        if key not in rates:
            rate = tf.cast(step.rate, entries.dtype)
            rates[key] = tf.math.multiply_no_nan(rate, tf.cast(is_made, entries.dtype))
        return tf.math.multiply_no_nan(entries, rates[key])

    return [vectors.map_entries(change, part) for part in step.raw]
