"""How the K-FAC optimizer makes a step, whatever its settings.

Gradients are checked and preconditioned, a momentum rule makes a step of them, and the step is made
if it is finite. The damping rule may judge it afterwards, and have it taken back. An ordinary
`tf.compat.v1.train.Optimizer` to its callers, among them wrappers that call `compute_gradients`
once per tower and `apply_gradients` once. Extended by the optimizer, which has the settings.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.curvature.bias_gradients import apart_from_filter
from kfac.curvature.pooled_gradients import masked_sooner
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Vector
from kfac.state import Assignment, assign_all, initial_zeros, make_counter, read, run_if
from kfac.update import health
from kfac.update.curvature_owner import CurvatureOwner
from kfac.update.damping import DampingRule, Trial
from kfac.update.momentum import Momentum, Problem, Step
from kfac.update.training_loss import TrainingLoss

v1 = tf.compat.v1


class _Update(NamedTuple):
    """One update, before it is made.

    Attributes:
      changes: What is subtracted from each variable.
      state: New values of velocities and of the momentum rule's variables.
      is_finite: bool [], whether the update is finite.
      is_made: bool [], whether it is made; if not, it changes nothing.
      before: The variables and their values, if it may be taken back.
      trial: What the damping rule must know of it.
      start: When it began; see `PhaseTimes`.
    """

    changes: list[Vector]
    state: list[Assignment]
    is_finite: Tensor
    is_made: Tensor
    before: list[Assignment]
    trial: Trial | None
    start: Tensor

    @property
    def needed(self) -> list[Tensor]:
        """What must be known before the update is made."""
        judged = [] if self.trial is None else list(self.trial)
        return [*judged, *(value for _, value in self.before), self.start]


class SteppingOptimizer(CurvatureOwner, v1.train.GradientDescentOptimizer):
    """An optimizer that preconditions gradients.

    The attributes are set by the constructor that extends this one.
    """

    _var_list: Sequence[Variable] | None
    _losses: TrainingLoss
    _momentum_rule: Momentum
    _damping_rule: DampingRule
    _kept_damping: Scalar | None
    """λ', see `Problem.kept_damping`; None means λ."""
    _may_reject: bool
    _damping_reads_averages: bool
    """Whether the damping is calibrated, or adapted by products with M."""
    _makes_step: Tensor | bool
    """bool [], whether a run makes a step, or else leaves all as it is and counts nothing."""
    _awaited: list[Operation]
    """What is to be done before the weights change, though a step can be computed before it."""
    _update: _Update
    _counters: dict[str, Variable]
    _before_step: Operation

    def __init__(self, learning_rate: float, name: str) -> None:
        """Makes no ops or variables.

        Args:
          learning_rate: Multiplies the changes.
          name: Name of the velocities and name scope of ops.
        """
        super().__init__(learning_rate, name=name)
        self._counters = {}
        self._before_step = None
        self._makes_step = True
        self._awaited = []
        self._begins_with_identity = True

    @property
    def counter(self) -> Variable:
        """How many steps were made, skipped or taken back, int64 []; made at first use."""
        return self._counter("counter")

    @property
    def skipped_steps(self) -> Variable:
        """How many steps were skipped because they were not finite, int64 []; made at first use."""
        return self._counter("skipped_steps")

    @property
    def rejected_steps(self) -> Variable:
        """How many steps were taken back, int64 []; made at first use."""
        return self._counter("rejected_steps")

    def _counter(self, name: str) -> Variable:
        if name not in self._counters:
            self._counters[name] = make_counter(name)
        return self._counters[name]

    def variables(self) -> list[Variable]:
        """Returns all state: velocities, averages, inverses, counters. Empty before it is made."""
        if not self._counters:
            return []
        counters = self._counters.values()
        rules = [*self._damping_rule.variables, *self._momentum_rule.variables]
        curvature = [*self.get_cov_vars(), *self.get_inv_vars()]
        return [*super().variables(), *counters, *rules, *curvature]

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = True,
        name: str | None = None,
        grad_loss: Tensor | None = None,
    ) -> Operation:
        """Computes gradients and applies them.

        Args:
          loss: As in `compute_gradients`.
          global_step: As in `apply_gradients`.
          var_list: As in `compute_gradients`.
          gate_gradients: As in `compute_gradients`.
          aggregation_method: As in `compute_gradients`.
          colocate_gradients_with_ops: As in `compute_gradients`.
          name: As in `apply_gradients`.
          grad_loss: As in `compute_gradients`.

        Raises:
          ValueError: No variable has a gradient, or as in `apply_gradients`.
        """
        return super().minimize(
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = True,
        grad_loss: Tensor | None = None,
    ) -> list[tuple[Tensor | None, Variable]]:
        """Computes gradients like any optimizer; leaves the layer collection open.

        Args:
          loss: The mean over the batch, shape []; of a tower, its part of a sum over towers.
          var_list: What to train; None means the constructor's choice, else all trainable.
          gate_gradients: As in `tf.compat.v1.train.Optimizer`, but GATE_OP is not heeded: as a step
            waits until all of it is known to be finite, it waits for all gradients that it needs.
          aggregation_method: As there.
          colocate_gradients_with_ops: Whether gradients are computed where the forward pass was,
            whatever the constructor was given for statistics.
          grad_loss: As there.
        """
        if gate_gradients == v1.train.Optimizer.GATE_OP:
            gate_gradients = v1.train.Optimizer.GATE_NONE
        gradients: list[tuple[Tensor | None, Variable]] = super().compute_gradients(
            loss,
            var_list=self._var_list if var_list is None else var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        self._losses.collect(loss)
        found, variables = zip(*gradients, strict=True)
        pairs = zip(masked_sooner(found), variables, strict=True)
        return [(_prepared(gradient, variable), variable) for gradient, variable in pairs]

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Makes one step, with the inverses as they are.

        Args:
          grads_and_vars: (gradient, variable) for every registered variable. Others may be among
            them only if their gradient is None.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: A registered variable has no gradient, a variable with a gradient is not
            registered, the collection is not complete, a tower has another collection, or the
            damping cannot be adapted.
        """
        pairs = self.check_gradients(grads_and_vars)
        variables = [variable for _, variable in pairs]
        self._damping_rule.check_variables(variables)
        self._losses.check()
        with v1.control_dependencies([self.maybe_pre_update_adapt_damping()]):
            with tf.init_scope():
                self._create_slots(variables)
            known = [_values_of(gradient) for gradient, _ in pairs]
            start = self._estimator.times.begin("apply", after=[*known, *self._awaited])
            with v1.name_scope(f"{self._name}/step"):
                self._update = self._make_update(pairs, start)
            changes = list(zip(self._update.changes, variables, strict=True))
            with v1.control_dependencies(self._awaited):
                self._summarize()
                with v1.control_dependencies(self._update.needed):
                    return super().apply_gradients(changes, global_step=global_step, name=name)

    def maybe_pre_update_adapt_damping(self) -> Operation:
        """Returns an op that does with the damping what is to be done before a step.

        That is to calibrate it at the first step, or to adapt it by the step before, where that
        is not done immediately. Every step waits for it. Inverses that are updated with the
        damping of the same step must wait for it, too, and it must wait for the averages if the
        damping is calibrated. It is made once: later calls return the same op.
        """
        if self._before_step is None:
            self._make_variables()
            with v1.name_scope(f"{self._name}/before_step"):
                # A run that makes no step must not pass for the first one, nor end an interval.
                step = tf.where(self._makes_step, read(self.counter), -1)
                self._before_step = self._damping_rule.before_step(
                    step, lambda: health.mean_curvature(self._estimator.blocks)
                )
        return self._before_step

    def _make_variables(self) -> None:
        self._estimator.make_vars()
        with tf.init_scope():
            self._damping_rule.make_variables()
            self._momentum_rule.make_variables()
            for name in ("counter", "skipped_steps", "rejected_steps"):
                self._counter(name)

    def _make_update(self, pairs: GradsAndVars, start: Tensor) -> _Update:
        """Computes a step, replaced by "no change" if it is not finite."""
        variables = [variable for _, variable in pairs]
        problem = self._problem(self._as_vectors(pairs), variables)
        step = self._momentum_rule.step(problem)
        changes = vectors.scale(step.rate, step.raw)
        checked = changes if step.whole is None else vectors.scale(step.rate, [step.whole])
        is_finite = tf.reduce_all(
            [tensor_ops.all_finite(vectors.entries(change)) for change in checked]
            + [tensor_ops.all_finite(value) for value in _others(step)]
        )
        is_made = tf.logical_and(is_finite, self._makes_step)
        slots = self._velocities(variables)
        velocities = [
            Assignment(slot, tensor_ops.choose(is_made, new, old))
            for slot, new, old in zip(slots, step.velocities, problem.velocities, strict=True)
        ]
        return _Update(
            changes=[vectors.map_entries(lambda x: _zero_unless(is_made, x), c) for c in changes],
            state=[*velocities, *_unless(tf.logical_not(is_made), step.state)],
            is_finite=is_finite,
            is_made=is_made,
            before=[Assignment(v, read(v)) for v in variables] if self._may_reject else [],
            trial=self._damping_rule.trial(
                read(self.counter), is_made, step.model_change, problem.dtype
            ),
            start=start,
        )

    def _problem(self, gradients: list[Vector], variables: list[Variable]) -> Problem:
        dtype = tensor_ops.statistics_dtype(gradients[0].dtype)
        damping = tensor_ops.as_scalar(self._damping_rule.read(), dtype)
        kept = damping if self._kept_damping is None else self._kept_damping
        return Problem(
            gradients=gradients,
            variables=variables,
            velocities=[read(slot) for slot in self._velocities(variables)],
            precondition=functools.partial(self._precondition, variables=variables),
            multiply=functools.partial(self._multiply, variables=variables),
            damping=damping,
            kept_damping=tensor_ops.as_scalar(kept, dtype),
        )

    def _step_reads_averages(self) -> bool:
        """Whether a step depends on averages themselves, and not only on inverses kept of them."""
        if self._damping_reads_averages:
            return True
        return not all(factor.keeps_inverses for factor in self.factors)

    def _velocities(self, variables: Sequence[Variable]) -> list[Variable]:
        if not self._momentum_rule.keeps_velocities:
            return []
        return [self.get_slot(variable, "velocity") for variable in variables]

    def _summarize(self) -> None:
        counters = {name: read(variable) for name, variable in self._counters.items()}
        del counters["counter"]
        scalars = {
            **self._damping_rule.summaries,
            **self._momentum_rule.summaries,
            **counters,
            "mean_curvature": health.mean_curvature(self._estimator.blocks),
            "layers_without_inverse": health.count_without_inverse(self._estimator.blocks),
        }
        health.summarize(scalars, self.factors, self._estimator.times)

    # What the base class calls.

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        if self._momentum_rule.keeps_velocities:
            for variable in var_list:
                shape, dtype = variable.shape, variable.dtype.base_dtype
                self._get_or_make_slot_with_initializer(
                    variable, initial_zeros, shape, dtype, "velocity", self._name
                )

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        """Adds what follows the update of the weights: judgement, velocities and counters."""
        update = self._update
        # As one, so that what waits for them has one edge each and not hundreds.
        with v1.control_dependencies([tf.group(*update_ops)]):
            verdict = self._damping_rule.verdict(update.trial)
            state, taken_back = update.state, []
            rejected = tf.zeros([], tf.bool) if verdict.rejected is None else verdict.rejected
            if self._may_reject:
                state = _unless(rejected, state)
                take_back = functools.partial(assign_all, update.before)
                taken_back.append(run_if(rejected, take_back))
            counters = {
                "counter": tf.convert_to_tensor(self._makes_step),
                "skipped_steps": tf.logical_and(self._makes_step, tf.logical_not(update.is_finite)),
                "rejected_steps": rejected,
            }
            counts = [
                Assignment(self._counters[name], read(self._counters[name]) + tf.cast(n, tf.int64))
                for name, n in counters.items()
            ]
            bookkeeping = assign_all([*state, *verdict.state, *counts])
        done = tf.group(*update_ops, *taken_back, bookkeeping)
        timed = self._estimator.times.end("apply", update.start, done)
        return super()._finish([done, timed], name_scope)


def _prepared(gradient: Any, variable: Variable) -> Any:
    """Returns a gradient of a variable, dense ones with its shape."""
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = apart_from_filter(gradient)
    gradient.set_shape(variable.shape)
    return gradient


def _values_of(gradient: Any) -> Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _others(step: Step) -> list[Tensor]:
    """Returns what is finite or not beside the changes: multiples of `raw` are, as it is."""
    raw = {id(vector) for vector in step.raw}
    velocities = [velocity for velocity in step.velocities if id(velocity) not in raw]
    return [step.rate, *velocities, *(assignment.value for assignment in step.state)]


def _zero_unless(condition: Tensor, tensor: Tensor) -> Tensor:
    # Zeros to choose would be known beforehand, and kept: as many as there are weights.
    return tf.math.multiply_no_nan(tensor, tf.cast(condition, tensor.dtype))


def _unless(condition: Tensor, assignments: Sequence[Assignment]) -> list[Assignment]:
    """Returns assignments that leave the variables as they are if the condition holds."""
    return [
        Assignment(variable, tensor_ops.choose(condition, read(variable), value))
        for variable, value in assignments
    ]
