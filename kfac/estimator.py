"""The Fisher estimator: statistics by back-propagation, inverses, and products with them.

Drives blocks and factors: builds one backward pass over all towers, decides on devices, makes all
variables and update ops. When these run is the optimizer's business, or the user's.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §5 and §6.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac import linalg
from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.arguments import check_choice
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.layer_collection import LayerCollection
from kfac.placement import Place, distinct, place_factors
from kfac.state import Assignment, assign_all, assign_if, make_counter, read

v1 = tf.compat.v1

ESTIMATION_MODES = ("gradients", "empirical")

Thunk = Callable[[], Operation]


class _BackwardPass(NamedTuple):
    """Gradients of the losses with respect to the layers' outputs.

    Attributes:
      gradients: One per layer and tower, in the order of `FisherEstimator._outputs`.
      is_finite: bool [], whether all the losses are. With ReLUs a loss of NaN can have finite
        gradients, which mean nothing.
      next_step: int64 [], the sample step after this pass.
    """

    gradients: tuple[Tensor, ...]
    is_finite: Tensor
    next_step: Tensor


class _Plan(NamedTuple):
    """All that is fixed when the estimator is first used.

    Attributes:
      backward: The backward pass in the main graph.
      cov_places: Where each factor's average lives.
      inv_places: Where each factor's inverses live.
      sample_step: int64 variable [], how many times targets were drawn.
    """

    backward: _BackwardPass
    cov_places: list[Place]
    inv_places: list[Place]
    sample_step: Variable


class FisherEstimator:
    """Estimates the Fisher matrix of a layer collection's losses, block by block."""

    def __init__(
        self,
        variables: Sequence[Variable] | None,
        cov_ema_decay: Scalar,
        damping: Scalar,
        layer_collection: LayerCollection,
        estimation_mode: str = "gradients",
        colocate_gradients_with_ops: bool = True,
        name: str = "FisherEstimator",
        cov_devices: Sequence[str] | None = None,
        inv_devices: Sequence[str] | None = None,
    ) -> None:
        """Builds nothing yet.

        Args:
          variables: What to precondition, which must be all the parameters that are registered;
            None means just these, whatever they are when the estimator is first used.
          cov_ema_decay: β, weight of the past in the moving averages, in [0, 1].
          damping: λ > 0, a number, Tensor or Variable.
          layer_collection: Layers and losses; finalized when the estimator is first used.
          estimation_mode: "gradients" draws targets from the model and so estimates the Fisher
            matrix; "empirical" uses the registered targets.
          colocate_gradients_with_ops: Whether the backward pass runs where the forward pass did.
          name: Name scope of ops.
          cov_devices: Devices for the moving averages; None means those of the layers.
          inv_devices: Devices for the inverses; None means those of the layers.

        Raises:
          ValueError: The estimation mode is unknown.
        """
        check_choice("estimation_mode", estimation_mode, ESTIMATION_MODES)
        self.name = name
        self._variables = None if variables is None else tuple(variables)
        self._cov_ema_decay = cov_ema_decay
        self._damping = damping
        self._collection = layer_collection
        self._mode = estimation_mode
        self._colocate = colocate_gradients_with_ops
        self._cov_devices = cov_devices
        self._inv_devices = inv_devices
        self._plan: _Plan | None = None

    @property
    def variables(self) -> tuple[Variable, ...]:
        """What is preconditioned."""
        if self._variables is None:
            return self._collection.registered_variables
        return self._variables

    @property
    def damping(self) -> Scalar:
        """λ as it was given."""
        return self._damping

    @property
    def blocks(self) -> tuple[FisherBlock, ...]:
        """The blocks, in order of registration."""
        return self._collection.get_blocks()

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors, in the order of the thunks; makes them at first use."""
        self._instantiate()
        return self._collection.get_factors()

    def get_cov_vars(self) -> list[Variable]:
        """Returns the variables of all moving averages, and the sample step."""
        averages = [v for factor in self.factors for v in factor.get_cov_vars()]
        return [*averages, self._instantiate().sample_step]

    def get_inv_vars(self) -> list[Variable]:
        """Returns the variables of all inverses."""
        return [v for factor in self.factors for v in factor.get_inv_vars()]

    # Building.

    def _instantiate(self) -> _Plan:
        """Finalizes the collection, makes factors and places them; once."""
        if self._plan is not None:
            return self._plan
        if not self._collection.is_final:
            self._collection.finalize()
        self._collection.check_registration(self.variables)
        sample_step = make_counter("sample_step")
        with v1.name_scope(self.name):
            backward = self._backward_pass(sample_step)
        gradients = iter(backward.gradients)
        for block in self.blocks:
            towers = [next(gradients) for _ in block.tensors_to_compute_grads()]
            block.instantiate_factors([towers], self._damping)
            block.check_shapes()
        sizes = [factor.dimension for factor in self._collection.get_factors()]
        devices = distinct(device for block in self.blocks for device in block.devices)
        cov_places = place_factors(sizes, self._cov_devices, devices)
        inv_places = place_factors(sizes, self._inv_devices, devices)
        self._plan = _Plan(backward, cov_places, inv_places, sample_step)
        return self._plan

    @property
    def _outputs(self) -> list[Tensor]:
        return [tensor for block in self.blocks for tensor in block.tensors_to_compute_grads()]

    def _backward_pass(self, sample_step: Variable) -> _BackwardPass:
        """Builds the gradients of all losses with respect to all layers' outputs, in one pass."""
        step = read(sample_step)
        if self._mode == "gradients":
            losses = self._collection.eval_losses("sample", "sqrt", step)
        else:
            losses = self._collection.eval_losses("data", "regular")
        gradients = v1.gradients(losses, self._outputs, colocate_gradients_with_ops=self._colocate)
        pairs = zip(self._outputs, gradients, strict=True)
        unreached = [tensor.name for tensor, gradient in pairs if gradient is None]
        if unreached:
            raise ValueError(
                "Cannot compute K-FAC statistics: no registered loss depends on these registered "
                f"layer outputs: {', '.join(unreached)}. Register as outputs the very tensors that "
                "the rest of the model uses, and the loss that is computed from them."
            )
        is_finite = tf.reduce_all([linalg.all_finite(loss) for loss in losses])
        return _BackwardPass(tuple(gradients), is_finite, step + 1)

    def make_vars(self) -> None:
        """Makes all variables, once. Must not be called in a conditional branch."""
        for make in (*self._cov_variable_thunks(), *self._inv_variable_thunks()):
            make()

    def _cov_variable_thunks(self) -> list[Callable[[], Sequence[Variable]]]:
        places = self._instantiate().cov_places

        def make(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_cov_variables(place.variables)
            return factor.get_cov_vars()

        return [functools.partial(make, *pair) for pair in zip(self.factors, places, strict=True)]

    def _inv_variable_thunks(self) -> list[Callable[[], Sequence[Variable]]]:
        places = self._instantiate().inv_places

        def make(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_inv_variables(place.variables)
            return factor.get_inv_vars()

        return [functools.partial(make, *pair) for pair in zip(self.factors, places, strict=True)]

    # Updating.

    def _updated_averages(
        self, indices: Sequence[int], backward: _BackwardPass
    ) -> list[Assignment]:
        """Folds a batch into some of the averages: into all of these, or if not finite, into none.

        Args:
          indices: Which factors.
          backward: The backward pass to use.

        Returns:
          The new values of the averages' variables and of the sample step.
        """
        plan = self._instantiate()
        pairs = zip(plan.backward.gradients, backward.gradients, strict=True)
        substitutes = {old.ref(): new for old, new in pairs}
        statistics = []
        for index in indices:
            with v1.device(plan.cov_places[index].compute):
                statistics.append(self.factors[index].batch_statistic(substitutes))
        accept = tf.reduce_all([backward.is_finite, *map(linalg.all_finite, statistics)])
        averages = []
        for index, statistic in zip(indices, statistics, strict=True):
            with v1.device(plan.cov_places[index].compute):
                factor = self.factors[index]
                averages += factor.updated_average(statistic, accept, self._cov_ema_decay)
        return [*averages, Assignment(plan.sample_step, backward.next_step)]

    def _updated_inverses(self, index: int) -> list[Assignment]:
        place = self._instantiate().inv_places[index]
        with v1.device(place.compute):
            return self.factors[index].updated_inverses()

    def make_cov_update_op(self, due: Tensor | bool = True) -> Operation:
        """Returns an op that folds the current batch into all moving averages.

        Args:
          due: bool []. When it is false the op does nothing: the backward pass is built inside
            the branch, so that it costs nothing either. A Python True builds no branch.
        """
        self.make_vars()
        plan = self._instantiate()

        def compute() -> list[Assignment]:
            backward = plan.backward if due is True else self._backward_pass(plan.sample_step)
            return self._updated_averages(range(len(self.factors)), backward)

        with v1.name_scope(f"{self.name}/update_averages"):
            return assign_if(due, self.get_cov_vars(), compute)

    def make_inv_update_op(self, due: Tensor | bool = True) -> Operation:
        """Returns an op that recomputes all inverses.

        It must run after the update of the averages, not beside it.

        Args:
          due: bool []. When it is false the op does nothing. A Python True builds no branch.
        """
        self.make_vars()

        def compute() -> list[Assignment]:
            return [a for i in range(len(self.factors)) for a in self._updated_inverses(i)]

        with v1.name_scope(f"{self.name}/update_inverses"):
            return assign_if(due, self.get_inv_vars(), compute)

    def create_ops_and_vars_thunks(
        self, scope: str | None = None
    ) -> tuple[
        list[Callable[[], Sequence[Variable]]],
        list[Thunk],
        list[Callable[[], Sequence[Variable]]],
        list[Thunk],
    ]:
        """Returns functions that make variables and ops, one of each kind per factor.

        Args:
          scope: Name scope of the ops; None means the estimator's name.

        Returns:
          (cov variables, cov updates, inv variables, inv updates), each in the order of
          `factors`. The variables of a factor must be made before its updates, and outside of
          conditional branches. Inverse updates must run after cov updates, not beside them.
        """
        plan = self._instantiate()
        name = scope or self.name

        def cov_update(index: int) -> Operation:
            with v1.name_scope(f"{name}/cov_update_{index}"):
                return assign_all(self._updated_averages([index], plan.backward))

        def inv_update(index: int) -> Operation:
            with v1.name_scope(f"{name}/inv_update_{index}"):
                return assign_all(self._updated_inverses(index))

        indices = range(len(self.factors))
        return (
            self._cov_variable_thunks(),
            [functools.partial(cov_update, index) for index in indices],
            self._inv_variable_thunks(),
            [functools.partial(inv_update, index) for index in indices],
        )

    def make_vars_and_create_op_thunks(
        self, scope: str | None = None
    ) -> tuple[list[Thunk], list[Thunk]]:
        """Makes all variables; returns functions that make the update ops, one per factor.

        Args:
          scope: Name scope of the ops; None means the estimator's name.

        Returns:
          (cov updates, inv updates), in the order of `factors`. Inverse updates must run after
          cov updates, not beside them.
        """
        _, cov_updates, _, inv_updates = self.create_ops_and_vars_thunks(scope)
        self.make_vars()
        return cov_updates, inv_updates

    # Using.

    def multiply_inverse(
        self, vecs_and_vars: Sequence[tuple[Tensor, Variable]]
    ) -> list[tuple[Tensor, Variable]]:
        """Multiplies vectors by the damped inverse Fisher matrix.

        Args:
          vecs_and_vars: (vector, variable) for every registered variable, shaped alike.

        Returns:
          (product, variable) in the same order.
        """
        self.make_vars()
        vectors = {variable.ref(): vector for vector, variable in vecs_and_vars}
        products: dict[Any, Tensor] = {}
        for block in self.blocks:
            params = as_tuple(block.params)
            layer = tuple(vectors[param.ref()] for param in params)
            with v1.device(self._inverse_device(block)):
                product = block.multiply_inverse(layer if block.has_bias else layer[0])
            refs = (param.ref() for param in params)
            products.update(zip(refs, as_tuple(product), strict=True))
        return [(products[variable.ref()], variable) for _, variable in vecs_and_vars]

    def _inverse_device(self, block: FisherBlock) -> str:
        """Returns where the largest inverse of a block is computed, which is where to use it."""
        largest = max(block.factors, key=lambda factor: factor.dimension)
        return self._instantiate().inv_places[self.factors.index(largest)].compute
