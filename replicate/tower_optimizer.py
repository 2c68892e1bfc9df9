"""TowerOptimizer: the gradients of all towers, applied once.

Each tower computes the gradients of its own part of the loss. All towers but the last only hand
theirs over; the last adds them up, variable by variable, and lets the wrapped optimizer apply the
sums as if there were one tower. Outside of `replicate_model_fn` it passes everything through.

A NaN or an infinity in any tower's gradient fails the step before any variable changes; with loss
scaling, or `skip_nonfinite`, it is skipped instead.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf

from model_deploy import cross_in_packs, sum_over_copies
from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.conditional import only_if
from replicate.finite_gradients import Watched, require_finite, watched, watched_all
from replicate.gradient_accumulation import GradientAccumulation
from replicate.gradient_changes import warn_of_differences
from replicate.gradient_origins import computed_gradients, origins_of
from replicate.gradient_shares import (
    are_loss_scaled,
    as_gradients,
    loss_scaled_variables,
    shares,
)
from replicate.loss_scale import DynamicLossScale, LossScaling, all_finite
from replicate.skipping import NonFiniteSkipping
from replicate.towers import (
    COLLECTION,
    REDUCED_GRADIENTS,
    TowerBuild,
    TowerContext,
    TowerGradients,
    current_build,
)

v1 = tf.compat.v1

GradientsAndVariables: TypeAlias = Sequence[tuple[Gradient | None, Variable]]
OptimizerFn: TypeAlias = Callable[[], v1.train.Optimizer]
Apply: TypeAlias = Callable[[Sequence[tuple[Gradient, Variable]]], Operation]


class TowerOptimizer(v1.train.Optimizer):
    """Wraps an optimizer so that it sees the gradients of all towers, once a step.

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

        The constructor of the base class is not called: this optimizer has no state.

        Args:
          optimizer_or_optimizer_fn: An optimizer, or a function without arguments that makes one.
            The function is called at first use, once for all towers, outside of the towers' names
            and devices: this is where an optimizer that makes variables belongs.
          accumulate_steps: Steps whose gradients make one update, ≥ 1. The update follows their
            mean, or their sum where towers are summed; the global step counts updates.
          clip_norm: Global norm that the gradients of an update are scaled down to, > 0.
          loss_scale: How the loss is scaled where gradients are 16-bit floats. A step with a
            gradient that is not finite is then skipped. `compute_gradients` returns the gradients
            of the scaled loss.
          pack_bytes: Gradients that cross from one device to another travel in packs of at most so
            many bytes; None sends each one by itself.
          skip_nonfinite: How many steps in a row may be left out, ≥ 0, because the loss or a
            gradient of some tower is NaN or infinite. Such a step changes nothing but two
            counters; the next one after so many fails with `NonFiniteError`.

        Raises:
          TypeError: It wraps something that is not an optimizer.
          ValueError: A setting is out of range.
        """
        is_optimizer = isinstance(optimizer_or_optimizer_fn, v1.train.Optimizer)
        if not is_optimizer and not callable(optimizer_or_optimizer_fn):
            raise TypeError(
                f"TowerOptimizer wraps a tf.compat.v1.train.Optimizer or a function without "
                f"arguments that returns one; got {optimizer_or_optimizer_fn!r}."
            )
        _check_settings(accumulate_steps, clip_norm, pack_bytes, skip_nonfinite)
        self._optimizer = optimizer_or_optimizer_fn if is_optimizer else None
        self._optimizer_fn = optimizer_or_optimizer_fn
        self._accumulate_steps = accumulate_steps
        self._clip_norm = clip_norm
        self._loss_scale = loss_scale
        self._scaling: LossScaling | None = None
        self._pack_bytes = pack_bytes
        self._skip_nonfinite = skip_nonfinite
        self._losses: list[Watched] = []

    @staticmethod
    def has_been_used() -> bool:
        """Whether the replicated call being built has let a wrapped optimizer apply gradients."""
        build = current_build()
        return build is not None and bool(build.calls[-1])

    @property
    def wrapped(self) -> v1.train.Optimizer:
        """The optimizer inside, made now if a function was given and this is its first use."""
        if self._optimizer is None:
            self._optimizer = _shared(self._optimizer_fn)
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
        """Computes the gradients of this tower's part of the loss.

        Args:
          loss: Scalar, over this tower's shard of the batch.
          *args: Further arguments of the wrapped optimizer's `compute_gradients`.
          **kwargs: Likewise.

        Returns:
          (gradient, variable) pairs; the gradient is None where the loss does not depend on the
          variable.
        """
        build = current_build()
        scaled = build.scaled(loss) if build else loss
        if self._skip_nonfinite:
            description = _in_tower(f"loss {loss.op.name}", build.tower if build else None)
            self._losses.append(watched(scaled, description, is_loss=True))
        if self._loss_scale is not None:
            self._scaling = self._scaling or _shared(partial(LossScaling, self._loss_scale))
            kwargs["grad_loss"] = self._scaling.grad_loss(scaled, kwargs.get("grad_loss"))
        pairs = list(self.wrapped.compute_gradients(scaled, *args, **kwargs))
        computed = computed_gradients(build.tower if build else None)
        computed.register((gradient for gradient, _ in pairs), self._scaling)
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies the gradients of all towers, in the last tower; before it, hands them over.

        Gradients from `compute_gradients`, and whatever is computed from them, are the tower's
        share of the batch's gradient. Others, such as those of `tf.gradients`, are taken for
        gradients of the tower's own loss, and scaled to its share as `compute_gradients` scales
        the loss.

        Args:
          grads_and_vars: (gradient, variable) pairs. A gradient may be None.
          global_step: Variable that is incremented once a step.
          name: Name of the operation.

        Returns:
          In the last tower the operation that trains; before it, one that only ends the tower.

        Raises:
          ValueError: An earlier tower made fewer calls than this one; or the wrapped optimizer is
            a SyncReplicasOptimizer and some setting leaves out its steps; or there is a
            `loss_scale`, and it is not that of the gradients.
        """
        if self._is_synchronous():
            self._check_every_step_counts()
        build = current_build()
        tower = build.tower if build else None
        part = self._part_of(build, tower, list(grads_and_vars))
        skipping = None
        if self._skip_nonfinite:
            skipping = _shared(partial(NonFiniteSkipping, self._skip_nonfinite))
        apply = partial(self._apply_now, global_step=global_step, name=name)
        if build is None or tower is None:
            return self._apply([part], True, skipping, apply)
        call = len(build.calls[tower.index])
        build.calls[tower.index].append(part)
        if not tower.is_last:
            return part.done
        towers = [calls[call] for calls in build.calls if call < len(calls)]
        if len(towers) < tower.count:
            raise different_calls(build)
        with build.outside_towers(towers[0]):
            train_op = self._apply(towers, build.averages_loss, skipping, apply)
        if skipping is not None:
            with v1.control_dependencies([train_op]):
                build.skipped.append(tf.identity(skipping.skipped))
        return train_op

    def _part_of(
        self,
        build: TowerBuild | None,
        tower: TowerContext | None,
        gradients_and_variables: GradientsAndVariables,
    ) -> TowerGradients:
        """Keeps one tower's gradients, and watches them where the tower computes."""
        pairs = as_gradients(gradients_and_variables)
        origins = origins_of(pairs, computed_gradients(tower))
        loss_scaled = are_loss_scaled(pairs, origins, self._scaling, self._loss_scale is not None)
        if build is not None and tower is not None and tower.count > 1:
            if tower.is_first:
                warn_of_differences(pairs, origins, tower.count)
            pairs = shares(pairs, origins, build.share)
        entries, self._losses = self._losses, []
        if self._skip_nonfinite or self._loss_scale is None:
            with v1.name_scope("finite_gradients"):
                entries = [*entries, *_watched(pairs, tower)]
        done = v1.group(*_evaluated(pairs), name="train_op_placeholder")
        names = v1.get_default_graph().get_name_scope()
        return TowerGradients(pairs, loss_scaled, entries, done, v1.get_variable_scope(), names)

    def _apply(
        self,
        towers: Sequence[TowerGradients],
        average: bool,
        skipping: NonFiniteSkipping | None,
        apply: Apply,
    ) -> Operation:
        """Sums the towers' gradients and lets the wrapped optimizer apply them, when it is time."""
        summed = self._summed(towers)
        ready = [*_more_than_gradients(towers), *_evaluated(summed)]
        entries = [entry for part in towers for entry in part.watched]
        if entries and skipping is None:
            with v1.name_scope("finite_gradients"):
                ready.append(require_finite(entries))
        with v1.control_dependencies([v1.group(*ready)]):
            with v1.name_scope("gradient_aggregating"):
                accepted = self._verdict(towers, summed, skipping)
            v1.get_collection_ref(REDUCED_GRADIENTS).extend(summed)
            if self._accumulate_steps > 1:
                train_op = self._accumulate(summed, accepted, average, apply)
            elif accepted is None:
                return apply(summed)
            else:
                train_op = only_if(accepted, partial(apply, summed))
        if accepted is None:
            return train_op
        with v1.control_dependencies([train_op]):
            return self._counted(accepted, skipping)

    def _summed(self, towers: Sequence[TowerGradients]) -> list[tuple[Gradient, Variable]]:
        """Returns the gradients of the whole batch's loss, without a loss scale."""
        gradients: Sequence[GradientsAndVariables]
        gradients = [part.gradients_and_variables for part in towers]
        with v1.name_scope("gradient_aggregating"):
            if self._pack_bytes is not None:
                gradients = [cross_in_packs(tower, self._pack_bytes) for tower in gradients]
            summed = sum_over_copies(gradients)
            if self._scaling is None:
                return summed
            scaled = loss_scaled_variables(towers)
            return [
                (self._scaling.unscaled(gradient, variable), variable)
                if variable.ref() in scaled
                else (gradient, variable)
                for gradient, variable in summed
            ]

    def _verdict(
        self,
        towers: Sequence[TowerGradients],
        summed: Sequence[tuple[Gradient, Variable]],
        skipping: NonFiniteSkipping | None,
    ) -> Tensor | None:
        """Returns whether the step may be applied, a boolean scalar; None: always."""
        if skipping is None:
            return None if self._scaling is None else tf.identity(all_finite(summed))
        entries = [entry for part in towers for entry in part.watched]
        if len(towers) > 1:
            entries += watched_all(
                (gradient_values(gradient), f"Summed over towers, {_name(variable)}")
                for gradient, variable in summed
            )
        if self._scaling is None:
            return skipping.judge(entries)
        return skipping.judge(entries, self._scaling.can_shrink())

    def _counted(self, accepted: Tensor, skipping: NonFiniteSkipping | None) -> Operation:
        """Returns the operation that takes note of a step that was applied or was not."""
        counts = []
        if skipping is not None:
            counts.append(skipping.count(accepted))
        if self._scaling is not None:
            update = partial(self._scaling.update, accepted)
            concerned = None if skipping is None else tf.logical_not(skipping.skipped)
            counts.append(update() if concerned is None else only_if(concerned, update))
        return v1.group(*counts)

    def _apply_now(
        self,
        gradients_and_variables: Sequence[tuple[Gradient, Variable]],
        global_step: Variable | None,
        name: str | None,
    ) -> Operation:
        if self._clip_norm is not None:
            gradients, variables = zip(*gradients_and_variables, strict=True)
            clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
            gradients_and_variables = list(zip(clipped, variables, strict=True))
        settled: Any = contextlib.nullcontext()
        if self._is_synchronous():
            # Its queue runner must not wait for what this step waits for: it would run it again.
            gradients_and_variables = [
                (with_values(gradient, tf.identity(gradient_values(gradient))), variable)
                for gradient, variable in gradients_and_variables
            ]
            settled = v1.control_dependencies(None)
        with settled:
            return self.wrapped.apply_gradients(
                gradients_and_variables, global_step=global_step, name=name
            )

    def _is_synchronous(self) -> bool:
        return isinstance(self.wrapped, v1.train.SyncReplicasOptimizer)

    def _check_every_step_counts(self) -> None:
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

    def _accumulate(
        self,
        gradients_and_variables: Sequence[tuple[Gradient, Variable]],
        accepted: Tensor | None,
        average: bool,
        apply: Apply,
    ) -> Operation:
        accumulation = GradientAccumulation(
            gradients_and_variables,
            self._accumulate_steps,
            average,
            accepted,
            getattr(self.wrapped, "accumulate_statistics", None),
        )

        def update() -> Operation:
            with v1.control_dependencies([apply(accumulation.totals)]):
                return accumulation.reset()

        return only_if(accumulation.due, update)


def different_calls(build: TowerBuild) -> ValueError:
    """The error for towers that did not make the same calls of `apply_gradients`."""
    counts = ", ".join(
        f"tower {index} made {len(calls)}" for index, calls in enumerate(build.calls)
    )
    return ValueError(
        f"Towers disagree: each call of model_fn was supposed to make the same optimizer calls "
        f"(minimize or apply_gradients), but {counts}. Look for an `if` on Python state, or for "
        f"randomness, around an optimizer in model_fn."
    )


def _watched(
    gradients_and_variables: GradientsAndVariables, tower: TowerContext | None
) -> list[Watched]:
    return watched_all(
        (gradient_values(gradient), _in_tower(_name(variable), tower))
        for gradient, variable in gradients_and_variables
        if gradient is not None
    )


def _name(variable: Variable) -> str:
    return f"gradient of {variable.op.name}"


def _in_tower(name: str, tower: TowerContext | None) -> str:
    """Begins a sentence about a loss or gradient."""
    return f"In {tower.label}, the {name}" if tower and tower.count > 1 else f"The {name}"


def _shared(make: Callable[[], Any]) -> Any:
    """Makes something once for all towers, or just makes it where there are none."""
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


def _more_than_gradients(towers: Iterable[TowerGradients]) -> list[Operation]:
    """Ends of the towers that wait for more than gradients, as control dependencies make them do.

    The others are reached with the sums, and waiting for them too would be more to do in each step.
    """
    return [
        part.done
        for part in towers
        if not {tensor.op for tensor in _evaluated(part.gradients_and_variables)}.issuperset(
            part.done.control_inputs
        )
    ]


def _evaluated(gradients_and_variables: Iterable[tuple[Gradient | None, Variable]]) -> list[Tensor]:
    """Tensors that are known once the gradients are."""
    return [
        gradient_values(gradient) for gradient, _ in gradients_and_variables if gradient is not None
    ]
