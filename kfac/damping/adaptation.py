"""Damping that adapts to how well the quadratic model foretells the change of the loss.

Compares the change of the loss on the mini-batch of a step with that of the model. Where the model
is good λ falls, where it is bad λ rises: the method of Levenberg and Marquardt. A step that made
things worse can be taken back; if the next one is as well, λ is far too small, and rises faster.
The optimizer owns the weights, `kfac.damping.training_loss` the losses. Called by the step.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.5.
"""

import functools
import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.arguments import check_excluded
from kfac.computed_settings import called_once
from kfac.damping.interface import (
    NAN,
    BeforeStep,
    DampingRule,
    GivenDamping,
    ModelChange,
    PhaseSeconds,
    StepPrediction,
    Verdict,
)
from kfac.damping.training_loss import TrainingLoss
from kfac.linalg import tensor_ops
from kfac.settings import KfacSettings
from kfac.state import CPU, Assignment, assign_all, make_variable, read, value_if
from kfac.variables import is_resource, name_of

v1 = tf.compat.v1

REPEATED_RISE = 2.0
"""Least factor by which λ rises when a step is taken back after another one that was."""


def adapted_damping(
    damping: Tensor, loss_change: Tensor, model_change: Tensor, settings: KfacSettings
) -> Tensor:
    """Returns the new λ: ωλ, λ/ω or λ, within its limits.

    With ρ = ΔL/Δq, ΔL = L(θ+δ) − L(θ) and ω = decay^interval, λ falls if ρ >
    `damping_decrease_rho_threshold`, and also if the loss fell although the model foretold a rise;
    else it rises if ρ < `damping_increase_rho_threshold`, or if the new loss is not finite. All
    have shape [].
    """
    rho = loss_change / model_change
    decay = settings.damping_adaptation_decay**settings.damping_adaptation_interval
    omega = tf.constant(decay, damping.dtype)
    fell_anyhow = tf.logical_and(loss_change < 0, model_change > 0)
    falls = tf.logical_or(rho > settings.damping_decrease_rho_threshold, fell_anyhow)
    is_finite = tf.math.is_finite(loss_change)
    rises = tf.logical_or(rho < settings.damping_increase_rho_threshold, tf.logical_not(is_finite))
    falls = tf.logical_and(falls, is_finite)
    new = tf.where(falls, omega * damping, tf.where(rises, damping / omega, damping))
    return within_limits(new, settings)


def damping_after_rejections(damping: Tensor, settings: KfacSettings) -> Tensor:
    """Returns the new λ if this step and the last that was judged are both taken back.

    It is λ/ω with ω = decay^interval, or `REPEATED_RISE`·λ if that is more, within its limits. With
    ω = 1, by which λ never changes, it stays. All have shape [].
    """
    omega = settings.damping_adaptation_decay**settings.damping_adaptation_interval
    rise = max(REPEATED_RISE, 1 / omega) if omega < 1 else 1.0
    return within_limits(tf.constant(rise, damping.dtype) * damping, settings)


def within_limits(damping: Tensor, settings: KfacSettings) -> Tensor:
    """Returns λ, or the limit that it is beyond."""
    damping = tf.maximum(damping, tf.constant(settings.least_damping, damping.dtype))
    if settings.max_damping is None:
        return damping
    return tf.minimum(damping, tf.constant(settings.max_damping, damping.dtype))


def is_rejected(loss_change: Tensor, model_change: Tensor, threshold: float) -> Tensor:
    """Returns true if ΔL > −threshold·|Δq|, or is not finite: bool [].

    Where the model foretells a fall this is ρ < threshold.
    """
    bound = -tf.constant(threshold, model_change.dtype) * tf.abs(model_change)
    return tf.logical_not(loss_change <= bound)


@typing.final
class AdaptedDamping(DampingRule):
    """λ in a variable, adapted every so many steps.

    A step that is not finite, and so is not made, is not judged. `change` keeps Δq of the step that
    is judged last, or next.
    """

    def __init__(self, settings: KfacSettings, losses: TrainingLoss, change: ModelChange) -> None:
        self._initial = called_once(settings.damping)
        self._losses = losses
        self._settings = settings
        self._dtype = tf.as_dtype(settings.dtype)
        self._change = change
        self._variables: tuple[Variable, ...] = ()

    @property
    def calibrates(self) -> bool:
        """True if λ is relative to the mean eigenvalue of M − λI at the first step."""
        return self._settings.calibrate_damping

    @property
    def may_reject(self) -> bool:
        """True if there is a ρ below which a step is taken back."""
        return self._settings.rejection_rho_threshold is not None

    def make_variables(self) -> None:
        """Makes the variables of λ, ρ and L(θ); all but λ are NaN at first."""
        if self._variables:
            return
        damping, dtype = self._initial, self._dtype
        if not isinstance(damping, tf.Variable):
            first = functools.partial(tensor_ops.as_scalar, damping, dtype)
            damping = make_variable("damping", [], dtype, CPU, initial=first)
        names = "rho", "prev_loss"
        kept = (make_variable(name, [], dtype, CPU, initial=NAN) for name in names)
        self._variables = (damping, *kept)

    @property
    def variables(self) -> list[Variable]:
        """λ, ρ and L(θ)."""
        return list(self._variables)

    @property
    def summaries(self) -> dict[str, Scalar]:
        """λ and ρ, by name."""
        return {"damping": read(self.damping), "rho": read(self.rho)}

    @property
    def damping(self) -> Variable:
        """The variable that keeps λ; made at first use."""
        return self._variable(0)

    @property
    def rho(self) -> Variable:
        """The variable that keeps ρ; made at first use."""
        return self._variable(1)

    @property
    def _prev_loss(self) -> Variable:
        """Keeps L(θ) of the step that is judged last, or next if that is not done immediately."""
        return self._variable(2)

    def _variable(self, index: int) -> Variable:
        self.make_variables()
        return self._variables[index]

    def read(self) -> Tensor:
        """Returns λ now, that is, after the active control dependencies."""
        return read(self.damping)

    def check_variables(self, variables: Sequence[Variable]) -> None:
        """Checks that variables are resources, if they are read in the same run after a step.

        Raises:
          ValueError: One of them is not.
        """
        references = [name_of(v) for v in variables if not is_resource(v)]
        if references and self._settings.update_damping_immediately:
            raise ValueError(
                "Cannot adapt K-FAC's damping right after a step: "
                f"{', '.join(references)} are reference variables, whose new values the same run "
                "does not see for certain. Make the model's variables with use_resource=True, or "
                "pass update_damping_immediately=False."
            )

    def before_step(
        self, counter: Tensor, mean_curvature: Callable[[], Tensor], seconds: PhaseSeconds
    ) -> BeforeStep:
        """Calibrates λ at the first step, or judges the step before; only if settings say so.

        `counter`, int64 [], is the number of steps made so far. `mean_curvature` returns the mean
        eigenvalue of M − λI, shape []. `seconds` are for the log.
        """
        if not self._settings.is_chief:
            return BeforeStep(assign_all([]))
        damping = self.read()
        if self._settings.calibrate_damping:
            damping = self._calibrated(damping, counter, mean_curvature)
        if self._settings.update_damping_immediately:
            return BeforeStep(assign_all([Assignment(self.damping, damping)]))
        new, state = self._judge_last_step(damping, counter, seconds)
        done = assign_all([*state, Assignment(self.damping, new)])
        return BeforeStep(done, inverse_damping=damping)

    def _calibrated(
        self, damping: Tensor, counter: Tensor, mean_curvature: Callable[[], Tensor]
    ) -> Tensor:
        """Returns λ times the mean eigenvalue if this is the first step and that is positive."""
        with v1.device(CPU):
            is_first = tf.equal(counter, 0)
            one = tf.ones_like(damping)
        mean = value_if(is_first, lambda: tf.cast(mean_curvature(), damping.dtype), one)
        with v1.device(CPU):
            usable = tf.logical_and(tf.math.is_finite(mean), mean > 0)
            calibrated = within_limits(damping * mean, self._settings)
            return tf.where(tf.logical_and(is_first, usable), calibrated, damping)

    def _judge_last_step(
        self, damping: Tensor, counter: Tensor, seconds: PhaseSeconds
    ) -> tuple[Tensor, list[Assignment]]:
        """Judges the step before, once: what was kept of it is then forgotten."""
        loss, model_change = read(self._prev_loss), read(self._change.variable)
        with v1.device(CPU):
            due = tf.logical_and(self._is_due(counter), tf.math.is_finite(loss))
        prediction = StepPrediction(due, loss, model_change, self._follows_rejected())
        new_loss = value_if(due, lambda: self._losses.on_previous_batch(loss.dtype), loss)
        damping, rho = self._judged(prediction, new_loss, damping, seconds)
        forgotten = tf.constant(NAN, loss.dtype)
        return damping, [_set_if(due, self.rho, rho), _set_if(due, self._prev_loss, forgotten)]

    def predict(
        self, counter: Tensor, accepted: Tensor, model_change: Callable[[], Tensor], dtype: DType
    ) -> StepPrediction | None:
        """Returns what must be known before the step is made; None if this is not the chief.

        `counter`, int64 [], is the number of steps made so far. `accepted`, bool [], is true if the
        step is finite, and so is made. `model_change` returns Δq, shape []. All is computed in
        `dtype`.
        """
        if not self._settings.is_chief:
            return None
        with v1.device(CPU):
            due = tf.logical_and(accepted, self._is_due(counter + 1))
        unknown = tf.constant(NAN, dtype)
        return StepPrediction(
            due=due,
            loss=value_if(due, lambda: self._losses.before_step(dtype), unknown),
            model_change=value_if(due, model_change, unknown),
            follows_rejected=self._follows_rejected(),
        )

    def verdict(self, prediction: StepPrediction | None, seconds: PhaseSeconds) -> Verdict:
        """Judges a step, after the active control dependencies, or keeps what is needed later."""
        if prediction is None:
            return Verdict([], None)
        state = [_set_if(prediction.due, self._prev_loss, prediction.loss)]
        if not self._settings.update_damping_immediately:
            return Verdict(state, None)
        loss = value_if(
            prediction.due,
            lambda: self._losses.on_current_batch(prediction.loss.dtype),
            prediction.loss,
        )
        old = self.read()
        damping, rho = self._judged(prediction, loss, old, seconds)
        rejected = self._rejected(prediction, loss)
        if rejected is not None:
            with v1.device(CPU):
                again = tf.logical_and(rejected, prediction.follows_rejected)
                more = damping_after_rejections(old, self._settings)
                damping = tf.where(again, more, damping)
        state += [
            _set_if(prediction.due, self.damping, damping),
            _set_if(prediction.due, self.rho, rho),
        ]
        return Verdict(state, rejected)

    def _rejected(self, prediction: StepPrediction, loss: Tensor) -> Tensor | None:
        """Returns true if a step with loss L(θ+δ) is to be taken back; None if none ever is."""
        threshold = self._settings.rejection_rho_threshold
        if threshold is None:
            return None
        with v1.device(CPU):
            rejected = is_rejected(loss - prediction.loss, prediction.model_change, threshold)
            return tf.logical_and(prediction.due, rejected)

    def _follows_rejected(self) -> Tensor:
        """Returns true if the last step that was judged, of which ρ and Δq are kept, was rejected.

        They are NaN before the first one.
        """
        threshold = self._settings.rejection_rho_threshold
        if threshold is None:
            with v1.device(CPU):
                return tf.zeros([], tf.bool)
        rho, change = read(self.rho), read(self._change.variable)
        with v1.device(CPU):
            rejected = is_rejected(rho * change, change, threshold)
            return tf.logical_and(rejected, tf.math.is_finite(change))

    def _is_due(self, step: Tensor) -> Tensor:
        with v1.device(CPU):
            return tf.equal(step % self._settings.damping_adaptation_interval, 0)

    def _judged(
        self, prediction: StepPrediction, loss: Tensor, damping: Tensor, seconds: PhaseSeconds
    ) -> tuple[Tensor, Tensor]:
        """Returns λ and ρ after a step with loss L(θ+δ); λ as it was if the step is not due."""
        with v1.device(CPU):
            loss_change = loss - prediction.loss
            rho = loss_change / prediction.model_change
            wide = tf.cast(damping, rho.dtype)
            new = adapted_damping(wide, loss_change, prediction.model_change, self._settings)
            new = tf.where(prediction.due, new, wide)
            if self._settings.print_logs:
                new = value_if(prediction.due, lambda: _logged(new, rho, seconds), new)
            return tf.cast(new, damping.dtype), rho


def make_damping_rule(
    settings: KfacSettings, losses: TrainingLoss, change: ModelChange | None
) -> DampingRule:
    """Returns the damping rule; it needs `change` only if λ adapts, see `AdaptedDamping`.

    Raises:
      ValueError: λ does not adapt, but a setting needs it to.
    """
    if settings.adapt_damping and change is not None:
        return AdaptedDamping(settings, losses, change)
    where, remedy = "adapt_damping=False", "it needs adapt_damping=True"
    check_excluded("calibrate_damping", settings.calibrate_damping or None, where, remedy)
    check_excluded("rejection_rho_threshold", settings.rejection_rho_threshold, where, remedy)
    return GivenDamping(called_once(settings.damping))


def _logged(damping: Tensor, rho: Tensor, seconds: PhaseSeconds) -> Tensor:
    times = [word for phase, time in seconds().items() for word in (phase, time, "s")]
    line = ("K-FAC: rho", rho, "damping", damping, *times)
    with v1.control_dependencies([tf.print(*line, output_stream=v1.logging.info)]):
        return tf.identity(damping)


def _set_if(condition: Tensor, variable: Variable, value: Tensor) -> Assignment:
    old = read(variable)
    return Assignment(variable, tf.where(condition, tf.cast(value, old.dtype), old))
