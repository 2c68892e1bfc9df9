"""TowerOptimizer: an optimizer that applies the summed gradients of all towers.

Each tower computes the gradients of its own loss, and may change them as one tower would. They
count by the tower's share of the batch, which `tower.shares` owns. In the last tower, the
gradients of all towers pass through the stages of `stages`: sum → judge → accumulate → clip
→ apply. The wrapped optimizer applies the result as if there were one tower. Outside of
`replicate_model_fn` there is one set of gradients, which passes through the same stages.

A NaN or an infinity in any tower's gradient fails the step before any variable changes. With a loss
scale, or with `skip_nonfinite`, the step is skipped instead.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.disagreement import different_optimizer_calls
from model_deploy.gradients import gradient_values
from model_deploy.reduction import GradientReduction
from model_deploy.tracebacks import methods_show_user_frames
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.gradients.acceptance import step_acceptance
from replicate.gradients.accumulation import GradientAccumulation
from replicate.gradients.loss_scale import DynamicLossScale, LossScaling
from replicate.gradients.skipping import NonFiniteSkipping
from replicate.gradients.stages import (
    GradientApplication,
    GradientClipping,
    GradientStages,
    GradientSum,
    is_synchronous,
    values_of,
)
from replicate.graph_mode import (
    check_no_keras_optimizer,
    check_not_eager,
    tensorflow_variable,
    with_tensorflow_variables,
)
from replicate.graph_ops.conditional import in_branch_or_loop
from replicate.graph_ops.finite import Watched, watched, watched_all
from replicate.tower.build import (
    COLLECTION,
    TowerBuild,
    TowerContext,
    TowerGradients,
    current_build,
)
from replicate.tower.shares import UNWEIGHTED, GradientShare, as_gradients
from replicate.tower.workers import current_workers

v1 = tf.compat.v1

OptimizerFn: TypeAlias = Callable[[], v1.train.Optimizer]


@methods_show_user_frames
class TowerOptimizer(v1.train.Optimizer):
    """Wraps an optimizer so that it applies the gradients of all towers, once a step.

    ```
    optimizer = TowerOptimizer(v1.train.AdamOptimizer(0.001))
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    ```
    """

    COLLECTION_FOR_GRAPH_STATES = COLLECTION

    def __init__(
        self,
        optimizer_or_optimizer_fn: v1.train.Optimizer | OptimizerFn,
        *,
        accumulate_steps: int = 1,
        clip_norm: float | None = None,
        loss_scale: DynamicLossScale | None = None,
        pack_bytes: int | None = None,
        skip_nonfinite: int = 0,
    ):
        """Wraps an optimizer.

        Args:
          optimizer_or_optimizer_fn: An optimizer, or a function without arguments that makes one.
            The function is called at first use, once for all towers, outside of the towers' names
            and devices. Use a function for an optimizer that makes variables.
          accumulate_steps: Steps whose gradients make one update, ≥ 1. The update applies their
            mean, or their sum if losses are summed over towers. The global step counts updates.
          clip_norm: Largest global norm of the gradients of an update, > 0; None: not clipped.
          loss_scale: Scale of the loss for gradients that are 16-bit floats. A step with a gradient
            that is not finite is then skipped. `compute_gradients` returns the gradients of the
            scaled loss, and `apply_gradients` divides all gradients by the scale.
          pack_bytes: Largest size, in bytes, of the packs in which gradients cross from one device
            to another, ≥ 1. None sends each gradient by itself.
          skip_nonfinite: Steps in a row that may be skipped because a loss or gradient of some
            tower is NaN or infinite, ≥ 0. A skipped step changes two counters only. The step after
            that many skipped ones fails with `NonFiniteError`.

        Raises:
          TypeError: The first argument is neither an optimizer nor a function, it is an optimizer
            of Keras, or loss_scale is of the wrong kind.
          ValueError: A setting is out of range.
        """
        check_no_keras_optimizer("TowerOptimizer", optimizer_or_optimizer_fn)
        is_optimizer = isinstance(optimizer_or_optimizer_fn, v1.train.Optimizer)
        if not is_optimizer and not callable(optimizer_or_optimizer_fn):
            raise TypeError(
                f"TowerOptimizer wraps a tf.compat.v1.train.Optimizer or a function without "
                f"arguments that returns one; got {optimizer_or_optimizer_fn!r}."
            )
        if loss_scale is not None and not isinstance(loss_scale, DynamicLossScale):
            raise TypeError(
                f"loss_scale must be a replicate.DynamicLossScale, or None for no scale; got "
                f"{loss_scale!r}."
            )
        _check_settings(accumulate_steps, clip_norm, pack_bytes, skip_nonfinite)
        # The base class keeps state in its constructor, which this optimizer does without.
        self._optimizer = optimizer_or_optimizer_fn if is_optimizer else None
        self._optimizer_fn = optimizer_or_optimizer_fn
        self._for_losses = optimizer_or_optimizer_fn if is_optimizer else self
        """What stands for this optimizer in verdicts: others may wrap the same one."""
        self._accumulate_steps = accumulate_steps
        self._clip_norm = clip_norm
        self._loss_scale = loss_scale
        self._scaling: LossScaling | None = None
        self._pack_bytes = pack_bytes
        self._skip_nonfinite = skip_nonfinite
        self._losses: list[Watched] = []

    def __str__(self) -> str:
        """Returns the sentence that Keras's error shows when a model is compiled with it."""
        return (
            "a TowerOptimizer, which runs in graph mode and cannot be given to a Keras model's "
            "compile: call its minimize in a model_fn that replicate.Estimator trains."
        )

    @staticmethod
    def has_been_used() -> bool:
        """Returns True if the last tower of the current build has applied gradients."""
        build = current_build()
        return build is not None and bool(build.calls[-1])

    @property
    def wrapped(self) -> v1.train.Optimizer:
        """The wrapped optimizer. If a function was given, its first use calls the function."""
        if self._optimizer is None:
            made = _shared(self._optimizer_fn)
            check_no_keras_optimizer("TowerOptimizer", made)
            self._optimizer = made
        return self._optimizer

    def get_name(self) -> str:
        """Returns the name of the wrapped optimizer."""
        return str(self.wrapped.get_name())

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Returns the wrapped optimizer's slot `name` for the variable."""
        return self.wrapped.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of the wrapped optimizer's slots."""
        return list(self.wrapped.get_slot_names())

    def variables(self) -> list[Variable]:
        """Returns the wrapped optimizer's variables."""
        return list(self.wrapped.variables())

    def compute_gradients(
        self, loss: Tensor, *args: Any, **kwargs: Any
    ) -> list[tuple[Gradient | None, Variable]]:
        """Computes the gradients of this tower's loss, as one tower would.

        `apply_gradients` weights them by the tower's share of the batch.

        Args:
          loss: Loss over this tower's shard of the batch.
          *args: Other arguments of the wrapped optimizer's `compute_gradients`.
          **kwargs: Other named arguments of that method.

        Returns:
          (gradient, variable) pairs; the gradient is None where the loss does not depend on the
          variable.
        """
        check_not_eager(f"TowerOptimizer.compute_gradients was called with the loss {loss!r}")
        build = current_build()
        if build is not None:
            build.add_loss(loss, self._for_losses)
        if self._skip_nonfinite:
            description = _in_tower(f"loss {loss.op.name}", build.tower if build else None)
            part = build.part_of_loss(loss) if build else loss
            self._losses.append(watched(part, description, is_loss=True))
        if build is not None and not build.is_outside:
            loss = build.counted_loss(loss)
        if self._loss_scale is not None:
            self._scaling = self._scaling or _shared(partial(LossScaling, self._loss_scale))
            kwargs["grad_loss"] = self._scaling.grad_loss(loss, kwargs.get("grad_loss"))
        given, named = with_tensorflow_variables(args, kwargs)
        return list(self.wrapped.compute_gradients(loss, *given, **named))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
        **others: Any,
    ) -> Operation:
        """Applies the gradients of all towers in the last tower; keeps them in the others.

        They are gradients of the tower's own loss, wherever they come from: they may be clipped or
        changed as on one tower. Their sum over towers is weighted by each tower's share of the
        batch. With a `loss_scale`, all of them are gradients of the scaled loss.

        Args:
          grads_and_vars: (gradient, variable) pairs. A gradient may be None.
          global_step: Variable that is incremented once an update.
          name: Name of the operation.
          **others: Other named arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
          In the last tower, the operation that trains. In other towers, an operation that waits for
          the tower's gradients.

        Raises:
          ValueError: An earlier tower made fewer calls than this one; the wrapped optimizer is a
            SyncReplicasOptimizer and a setting skips some of its steps; or there is a `loss_scale`
            and `compute_gradients` was not called.
        """
        check_not_eager("TowerOptimizer.apply_gradients was called with gradients")
        self._check_sync_replicas()
        build = current_build()
        # Outside of the tower, an optimizer around this one has gathered the gradients.
        tower = build.tower if build and not build.is_outside else None
        if build and tower:
            build.verdicts.applied(self._for_losses)
        share = build.gradient_share if build and tower else UNWEIGHTED
        reduction: GradientReduction = build.settings.reduction if build else "last"
        gradients = self._tower_gradients(build, tower, share, grads_and_vars)
        skipping = None
        if self._skip_nonfinite:
            skipping = _shared(partial(NonFiniteSkipping, self._skip_nonfinite))
        stages = self._stages(
            GradientSum(self._pack_bytes, self._scaling, reduction, share),
            skipping,
            GradientApplication(self.wrapped, global_step, name, others),
            average=build is None or tower is None or build.averages_loss,
        )
        if build is None or tower is None:
            return stages.build([gradients])
        _check_graph(build, tower)
        call = len(build.calls[tower.index])
        build.calls[tower.index].append(gradients)
        if not tower.is_last:
            return gradients.done
        towers = [calls[call] for calls in build.calls if call < len(calls)]
        if len(towers) < tower.count:
            raise different_optimizer_calls(build.call_counts)
        with build.outside_towers(towers[0]), build.gathering():
            train_op = stages.build(towers)
        if skipping is not None:
            with v1.control_dependencies([train_op]), v1.device(CPU):
                build.skipped.append(tf.identity(skipping.skipped))
        return train_op

    def _tower_gradients(
        self,
        build: TowerBuild | None,
        tower: TowerContext | None,
        share: GradientShare,
        gradients_and_variables: Iterable[tuple[Gradient | None, Variable]],
    ) -> TowerGradients:
        """Returns one tower's gradients, watched on the tower's device."""
        pairs = as_gradients(
            (gradient, tensorflow_variable(variable))
            for gradient, variable in gradients_and_variables
        )
        self._check_loss_scale(pairs)
        pairs = share.in_tower(pairs)
        entries, self._losses = self._losses, []
        if self._skip_nonfinite or self._loss_scale is None:
            with v1.name_scope("finite_gradients"):
                entries = [*entries, *_watched(pairs, tower)]
        done = v1.group(*values_of(pairs), name="train_op_placeholder")
        names = v1.get_default_graph().get_name_scope()
        device = build.device(tower.index) if build and tower else ""
        scope = v1.get_variable_scope()
        return TowerGradients(pairs, entries, done, scope, names, device)

    def _stages(
        self,
        gradient_sum: GradientSum,
        skipping: NonFiniteSkipping | None,
        application: GradientApplication,
        average: bool,
    ) -> GradientStages:
        """Makes the stages of an update from the settings."""
        accumulate_statistics = getattr(self.wrapped, "accumulate_statistics", None)
        workers = current_workers()
        steps = self._accumulate_steps
        is_local = workers is not None and steps > 1
        return GradientStages(
            gradient_sum,
            step_acceptance(skipping, self._scaling, workers, is_summed=not is_local),
            GradientAccumulation(steps, average, accumulate_statistics, is_local),
            GradientClipping(self._clip_norm),
            application,
            workers,
        )

    def _check_loss_scale(
        self, gradients_and_variables: Iterable[tuple[Gradient | None, Variable]]
    ) -> None:
        """Refuses gradients if there is a loss scale and no loss was given to be scaled."""
        if self._loss_scale is None or self._scaling is not None:
            return
        if any(gradient is not None for gradient, _ in gradients_and_variables):
            raise ValueError(
                "Cannot apply gradients by TowerOptimizer(loss_scale=…): its compute_gradients was "
                "not called, so nothing scales their loss. Replace tf.gradients by "
                "compute_gradients or minimize of this optimizer, or leave out loss_scale."
            )

    def _check_sync_replicas(self) -> None:
        """Refuses what a SyncReplicasOptimizer cannot do: skipped steps, no parameter servers."""
        if not is_synchronous(self.wrapped):
            return
        if current_workers() is not None:
            raise ValueError(
                "TowerOptimizer cannot wrap a SyncReplicasOptimizer with train_distribute="
                "AllReduce(...): that optimizer sums gradients on parameter servers, and AllReduce "
                "sums them already. Wrap its inner optimizer instead."
            )
        settings = {
            "accumulate_steps": (self._accumulate_steps, 1),
            "loss_scale": (self._loss_scale, None),
            "skip_nonfinite": (self._skip_nonfinite, 0),
        }
        for name, (value, default) in settings.items():
            if value != default:
                raise ValueError(
                    f"TowerOptimizer({name}={value!r}) cannot wrap a SyncReplicasOptimizer: the "
                    f"other workers would wait for the gradients of a worker that leaves out a "
                    f"step. Leave {name} at {default!r}."
                )


def _check_graph(build: TowerBuild, tower: TowerContext) -> None:
    """Refuses gradients in a branch, a loop or a function, which no other tower can read."""
    if tower.count == 1:
        return
    if v1.get_default_graph() is not build.graph or in_branch_or_loop():
        raise ValueError(
            f"Cannot gather gradients: {tower.label} calls apply_gradients inside of a function, "
            "such as a branch of tf.cond, the body of a tf.while_loop or a tf.function. Call it "
            "outside, and choose between gradients there."
        )


def _watched(
    gradients_and_variables: Iterable[tuple[Gradient | None, Variable]], tower: TowerContext | None
) -> list[Watched]:
    return watched_all(
        (gradient_values(gradient), _in_tower(f"gradient of {variable.op.name}", tower))
        for gradient, variable in gradients_and_variables
        if gradient is not None
    )


def _in_tower(name: str, tower: TowerContext | None) -> str:
    """Returns the first words of a sentence about a tower's loss or gradient."""
    return f"In {tower.label}, the {name}" if tower and tower.count > 1 else f"The {name}"


def _shared(make: Callable[[], Any]) -> Any:
    """Makes an object once for all towers. Outside of towers, makes it for this call."""
    build = current_build()
    return build.shared(make) if build else make()


def _check_settings(
    accumulate_steps: int, clip_norm: float | None, pack_bytes: int | None, skip_nonfinite: int
) -> None:
    _check_int("accumulate_steps", accumulate_steps, 1)
    _check_int("skip_nonfinite", skip_nonfinite, 0)
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm must be > 0, or None not to clip; got {clip_norm!r}.")
    if pack_bytes is not None and pack_bytes < 1:
        raise ValueError(f"pack_bytes must be ≥ 1, or None not to pack; got {pack_bytes!r}.")


def _check_int(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an int ≥ {least}, got {value!r}.")
