"""Origins of the gradients that are passed to `TowerOptimizer.apply_gradients`.

`TowerOptimizer.compute_gradients` scales the tower's loss, so its gradients are the tower's share
of the batch's gradient. Other gradients, such as those of `tf.gradients`, belong to the unscaled
loss and must still be scaled. `compute_gradients` registers its results here. `apply_gradients`
asks which gradients are registered, or computed from registered ones.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from model_deploy.gradients import gradient_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.loss_scale import LossScaling
from replicate.towers import TowerContext

v1 = tf.compat.v1

COMPUTED = ("replicate", "computed_gradients")
"""Key of a graph's registered gradients. Not a string, so that it is never exported."""

_PRODUCTS = frozenset({"Mul", "RealDiv"})


class ComputedGradients:
    """Gradients that `compute_gradients` returned in one tower, and tensors computed from them."""

    def __init__(self) -> None:
        """Begins with none."""
        self._scalings: dict[Any, LossScaling | None] = {}
        """Reference of a gradient's values → the scaling of its loss."""

    def register(
        self, gradients: Iterable[Gradient | None], scaling: LossScaling | None = None
    ) -> None:
        """Registers the gradients that a call of `compute_gradients` returns.

        Args:
          gradients: Tensors or IndexedSlices. None is ignored.
          scaling: Scaling of the loss, if it has one.
        """
        for gradient in gradients:
            if gradient is not None:
                self._scalings[gradient_values(gradient).ref()] = scaling

    def registers(self, gradient: Gradient) -> bool:
        """Returns True if `compute_gradients` returned this gradient unchanged."""
        return gradient_values(gradient).ref() in self._scalings

    def derived(self) -> "DerivedGradients":
        """Finds all operations that compute something from registered gradients."""
        by_scaling: dict[int, tuple[LossScaling | None, list[Tensor]]] = {}
        for reference, scaling in self._scalings.items():
            by_scaling.setdefault(id(scaling), (scaling, []))[1].append(reference.deref())
        return DerivedGradients(
            self,
            [(scaling, _consumers_of(tensors)) for scaling, tensors in by_scaling.values()],
        )

    def scaling_of(self, gradient: Gradient) -> LossScaling | None:
        """Returns the scaling of a registered gradient's loss.

        Raises:
          KeyError: The gradient is not registered.
        """
        return self._scalings[gradient_values(gradient).ref()]


class DerivedGradients(NamedTuple):
    """Operations that compute something from registered gradients.

    Attributes:
      computed: The registered gradients.
      operations: The operations for each scaling of losses.
    """

    computed: ComputedGradients
    operations: Sequence[tuple[LossScaling | None, set[Operation]]]

    def scalings_of(self, tensor: Tensor) -> list[LossScaling | None]:
        """Returns the scalings of the losses that a tensor depends on by registered gradients."""
        if self.computed.registers(tensor):
            return [self.computed.scaling_of(tensor)]
        return [scaling for scaling, operations in self.operations if tensor.op in operations]


class Origins(NamedTuple):
    """Origins of the gradients of one call of `apply_gradients`.

    Attributes:
      scalings: For each gradient, the scalings of its losses. An empty list for None and for a
        gradient that does not come from `compute_gradients`.
      derived: Operations that compute something from registered gradients; None if all gradients
        are registered.
    """

    scalings: list[list[LossScaling | None]]
    derived: DerivedGradients | None


def computed_gradients(tower: TowerContext | None) -> ComputedGradients:
    """Returns the registered gradients of a tower, or of the graph outside of towers."""
    in_collection = v1.get_collection_ref(COMPUTED)
    if not in_collection:
        in_collection.append({})
    by_tower: dict[int | None, ComputedGradients] = in_collection[0]
    return by_tower.setdefault(tower.index if tower else None, ComputedGradients())


def origins_of(
    gradients_and_variables: Sequence[tuple[Gradient | None, Variable]],
    computed: ComputedGradients,
) -> Origins:
    """Finds out which gradients come from `compute_gradients`.

    A registered gradient costs one look-up. The graph is searched only if a gradient is not
    registered.
    """
    gradients = [gradient for gradient, _ in gradients_and_variables]
    if all(gradient is None or computed.registers(gradient) for gradient in gradients):
        return Origins([_registered(gradient, computed) for gradient in gradients], None)
    derived = computed.derived()
    return Origins(
        [
            [] if gradient is None else derived.scalings_of(gradient_values(gradient))
            for gradient in gradients
        ],
        derived,
    )


def _registered(gradient: Gradient | None, computed: ComputedGradients) -> list[LossScaling | None]:
    return [] if gradient is None else [computed.scaling_of(gradient)]


def _consumers_of(tensors: Iterable[Tensor]) -> set[Operation]:
    """Returns all operations that compute something from the tensors.

    The search does not follow a scalar that multiplies a larger tensor. So the common factor of
    `tf.clip_by_global_norm` does not make other gradients look like registered ones.
    """
    found: set[Operation] = set()
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        for operation in tensor.consumers():
            if operation not in found and not _is_factor(tensor, operation):
                found.add(operation)
                pending += operation.outputs
    return found


def _is_factor(tensor: Tensor, operation: Operation) -> bool:
    if operation.type not in _PRODUCTS or tensor.shape.num_elements() != 1:
        return False
    return any(each.shape.num_elements() != 1 for each in operation.inputs)
