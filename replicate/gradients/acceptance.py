"""Rules that decide if the gradients of a step may be applied.

The second stage of an update, after the sum over towers. Without settings, a NaN or an infinity
fails the step. With a loss scale or `skip_nonfinite`, the step is skipped and counted instead.
`graph_ops.finite` finds the tensors that are not finite; `skipping` and `loss_scale` own the
counters.
"""

import abc
import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.gradients import gradient_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.gradients.loss_scale import LossScaling, all_finite
from replicate.gradients.skipping import NonFiniteSkipping
from replicate.graph_ops.conditional import run_if
from replicate.graph_ops.finite import Watched, finite_flags, require_finite, watched_all
from replicate.protocols import Workers
from replicate.tower.build import TowerGradients

v1 = tf.compat.v1


class StepAcceptance(abc.ABC):
    """Rule that decides if the gradients of a step may be applied."""

    def requirements(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> list[Operation]:
        """Returns operations that fail a step which must not be applied: by default none.

        The sums are those over towers, and over workers if there are several.
        """
        del towers, summed
        return []

    @abc.abstractmethod
    def judge(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> Tensor | None:
        """Returns True if the step may be applied: a boolean scalar. None: every step may."""

    @abc.abstractmethod
    def record(self, accepted: Tensor | None, train_op: Operation) -> Operation:
        """Returns an operation that runs `train_op`, then counts the step as `judge` found it."""


def step_acceptance(
    skipping: NonFiniteSkipping | None,
    scaling: LossScaling | None,
    workers: Workers | None = None,
    is_summed: bool = True,
) -> StepAcceptance:
    """Chooses the rule for an optimizer's settings.

    Args:
      skipping: State of `skip_nonfinite`, if that is set.
      scaling: State of the loss scale, if there is one.
      workers: Workers that decide alike; None for this process alone.
      is_summed: True if the gradients of a step are sums over workers; False if each worker has its
        own, which they add up later.
    """
    if skipping is not None:
        return SkipNonFinite(skipping, scaling, workers)
    if scaling is None:
        return FailOnNonFinite(workers, is_summed)
    return SkipOverflow(scaling, None if is_summed else workers)


@typing.final
class FailOnNonFinite(StepAcceptance):
    """Fails a step with `NonFiniteError` if any tower's gradient is not finite.

    With several workers the sums over all of them decide, which are the same on each. If there are
    no sums yet, the workers agree on the gradients of each. The error names the workers that have a
    gradient which is not finite.
    """

    def __init__(self, workers: Workers | None = None, is_summed: bool = True):
        self._workers = workers
        self._is_summed = is_summed

    def requirements(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> list[Operation]:
        """Returns the operation that fails the step, if any gradient is watched."""
        own, workers = _watched(towers), self._workers
        if workers is None or not self._is_summed:
            entries = own
        else:
            entries = _watched_sums(summed, "workers")
        if not entries:
            return []
        with v1.name_scope("finite_gradients"):
            if workers is None:
                return [require_finite(entries)]
            agreed = None if self._is_summed else workers.agreed
            return [require_finite(entries, agreed, _culprits(own, workers))]

    def judge(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> None:
        """Returns None: a step that has not failed is applied."""
        del towers, summed

    def record(self, accepted: Tensor | None, train_op: Operation) -> Operation:
        """Returns `train_op`: nothing is counted."""
        del accepted
        return train_op


@typing.final
class SkipOverflow(StepAcceptance):
    """Skips a step if a sum of gradients is not finite, and shrinks the loss scale."""

    def __init__(self, scaling: LossScaling, workers: Workers | None = None):
        self._scaling = scaling
        self._workers = workers

    def judge(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> Tensor:
        """Returns True if all sums are finite, a boolean scalar."""
        del towers
        is_finite = all_finite(summed)
        if self._workers is None:
            return is_finite
        with v1.device(CPU):
            return self._workers.agreed(tf.reshape(is_finite, [1]))[0]

    def record(self, accepted: Tensor | None, train_op: Operation) -> Operation:
        """Returns an operation that runs `train_op`, then adapts the loss scale."""
        with v1.control_dependencies([train_op]), v1.device(CPU):
            return v1.group(self._scaling.adapt(accepted))


@typing.final
class SkipNonFinite(StepAcceptance):
    """Skips a step if a loss or gradient is not finite; fails after too many in a row.

    With a loss scale, a gradient that is not finite under a finite loss is an overflow: the step is
    skipped without being counted, as long as the scale can shrink.
    """

    def __init__(
        self,
        skipping: NonFiniteSkipping,
        scaling: LossScaling | None,
        workers: Workers | None = None,
    ):
        self._workers = workers
        self._skipping = skipping
        self._scaling = scaling

    def judge(
        self, towers: Sequence[TowerGradients], summed: Sequence[tuple[Gradient, Variable]]
    ) -> Tensor:
        """Returns True if all losses, gradients and sums are finite, a boolean scalar.

        Evaluating it fails the step after too many skipped ones.
        """
        entries = _watched(towers)
        workers = self._workers
        if len(towers) > 1 or workers is not None:
            entries += _watched_sums(summed)
        with v1.device(CPU):
            may_overflow = None if self._scaling is None else self._scaling.can_shrink()
            return self._skipping.judge(entries, may_overflow, workers)

    def record(self, accepted: Tensor | None, train_op: Operation) -> Operation:
        """Returns an operation that runs `train_op`, then sets the counters and the scale."""
        with v1.control_dependencies([train_op]), v1.device(CPU):
            return v1.group(self._skipping.count(accepted), *self._scale_changes(accepted))

    def _scale_changes(self, accepted: Tensor | None) -> list[Operation]:
        """Returns the change of the loss scale, which leaves out steps counted as skipped."""
        scaling = self._scaling
        if scaling is None:
            return []
        is_not_skipped = tf.logical_not(self._skipping.skipped)
        return [run_if(is_not_skipped, lambda: scaling.adapt(accepted))]


def _culprits(own: Sequence[Watched], workers: Workers) -> Callable[[], Tensor]:
    """Returns a function that makes words about the workers whose gradients are not finite."""
    with v1.device(CPU):
        is_finite = tf.reduce_all(finite_flags(own)[0])

    def circumstances() -> Tensor:
        names = workers.names_without(is_finite)
        with v1.device(CPU):
            return tf.where(tf.equal(names, ""), "", tf.strings.join([", because of ", names]))

    return circumstances


def _watched(towers: Sequence[TowerGradients]) -> list[Watched]:
    return [entry for tower in towers for entry in tower.watched]


def require_finite_sums(summed: Sequence[tuple[Gradient, Variable]]) -> Operation:
    """Returns an operation that fails if a sum over workers is not finite, on all of them alike."""
    with v1.name_scope("finite_sums"):
        return require_finite(_watched_sums(summed, "workers"))


def _watched_sums(
    summed: Sequence[tuple[Gradient, Variable]], over: str = "towers"
) -> list[Watched]:
    """Watches the sums of gradients, each on its device."""
    by_device: dict[str, list[tuple[Tensor, str]]] = {}
    for gradient, variable in summed:
        values = gradient_values(gradient)
        description = f"Summed over {over}, gradient of {variable.op.name}"
        by_device.setdefault(values.device, []).append((values, description))
    entries: list[Watched] = []
    for device, described in by_device.items():
        with v1.device(device):
            entries += watched_all(described)
    return entries
