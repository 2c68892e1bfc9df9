"""The Fisher estimator: statistics by back-propagation, inverses, and products with them.

Drives blocks and factors: builds one backward pass over all towers, decides on devices, makes all
variables and update ops. When these run is the optimizer's business, or the user's.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §5 and §6.
"""

import functools
import itertools
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.arguments import check_choice
from kfac.curvature.averaging import BatchSums, fold_batch, fold_statistics
from kfac.curvature.backward_pass import (
    BackwardPass,
    BackwardPasses,
    block_gradients,
    checked_batch_size,
    first_order_statistics,
    may_stand_in,
)
from kfac.curvature.block_products import ServedFunctions, VectorsAndVariables, product_or_identity
from kfac.curvature.by_hand import CurvatureByHand
from kfac.curvature.estimation_modes import MODES, mode_of
from kfac.curvature.inverses_in_turn import inverse_update
from kfac.curvature.timing import PhaseTimes
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.kept import MatrixSlot
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import MatrixFunction
from kfac.placement import STRATEGIES, Devices, Placement, distinct, placement_costs
from kfac.registration.registered_model import RegisteredModel
from kfac.state import CPU, Assignment, Gate, assign_all, group, is_in_function, read, run_if
from kfac.variables import name_of

v1 = tf.compat.v1

ESTIMATION_MODES = tuple(MODES)


@typing.final
class FisherEstimator(CurvatureByHand):
    """Estimates the Fisher matrix of a layer collection's losses, block by block.

    Attributes:
      name: Name scope of ops.
      times: Durations of updates when they last ran.
    """

    def __init__(
        self,
        variables: Sequence[Variable] | None,
        cov_ema_decay: Scalar,
        damping: Scalar,
        layer_collection: RegisteredModel,
        exps: Sequence[float] = (-1,),
        estimation_mode: str = "gradients",
        colocate_gradients_with_ops: bool = True,
        name: str = "FisherEstimator",
        compute_cholesky: bool = False,
        compute_cholesky_inverse: bool = False,
        compute_params_stats: bool = False,
        batch_size: Scalar | None = None,
        cov_devices: Sequence[str] | None = None,
        inv_devices: Sequence[str] | None = None,
        trans_devices: Sequence[str] | None = None,
        placement_strategy: str | None = None,
        functions: Sequence[MatrixFunction] = (),
    ) -> None:
        """Builds nothing yet.

        Args:
          variables: Variables to precondition, all the parameters that are registered; None means
            just these, whatever they are when the estimator is first used.
          cov_ema_decay: β, weight of the past in the moving averages, in [0, 1].
          damping: λ > 0, a number, Tensor or Variable, or a function that returns one of these
            and is called whenever λ is needed.
          layer_collection: A `LayerCollection`; finalized when the estimator is first used.
          exps: Powers of the damped matrix that `multiply_matpower` is to serve, beside 1.
          estimation_mode: One of `ESTIMATION_MODES`, see `kfac.curvature.estimation_modes`.
            "gradients" draws targets from the model and so estimates the Fisher matrix;
            "empirical" uses the registered targets.
          colocate_gradients_with_ops: True to run the backward pass where the forward pass did.
          name: Name scope of ops.
          compute_cholesky: True to serve `multiply_cholesky`.
          compute_cholesky_inverse: True to serve `multiply_cholesky_inverse`.
          compute_params_stats: True to serve `params_stats`.
          batch_size: Examples in the batch, over all towers, for `params_stats`. It is compared
            with the losses, when `params_stats` are run if their sizes are not static.
          cov_devices: Devices for the moving averages; none means those of the layers.
          inv_devices: Devices for the inverses; none means those of the layers.
          trans_devices: Devices for products with blocks; none means where its inverses are.
          placement_strategy: None spreads the work over devices by cost, "round_robin" in turn;
            then no devices mean that there is no preference.
          functions: Further functions of the damped matrix that `multiply_function` is to serve.

        Raises:
          ValueError: The estimation mode or placement strategy is unknown, or the batch size is
            missing.
        """
        mode = mode_of(estimation_mode)
        check_choice("placement_strategy", placement_strategy, STRATEGIES)
        if compute_params_stats and batch_size is None:
            raise ValueError(
                "Cannot set up K-FAC: compute_params_stats=True, batch_size=None. Pass the number "
                "of examples in the batch, over all towers, as batch_size."
            )
        self.name = name
        self._served = ServedFunctions(
            tuple(exps), compute_cholesky, compute_cholesky_inverse, tuple(functions)
        )
        self.times = PhaseTimes()
        self._variables = None if variables is None else tuple(variables)
        self._cov_ema_decay = cov_ema_decay
        self._damping = damping
        self._collection = layer_collection
        self._mode = mode
        self._colocate = colocate_gradients_with_ops
        self._compute_params_stats = compute_params_stats
        self._batch_size = batch_size
        self._devices = (cov_devices, inv_devices, trans_devices)
        self._strategy = STRATEGIES[placement_strategy]
        self._placement: Placement | None = None
        self._params_stats: tuple[Tensor, ...] = ()
        self._passes: BackwardPasses | None = None
        self._sums: BatchSums | None = None
        self._slots_with_variables: list[MatrixSlot] | None = None

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The parameters that are preconditioned."""
        if self._variables is None:
            return self._collection.registered_variables
        return self._variables

    @property
    def damping(self) -> Scalar:
        """λ as it was given."""
        return self._damping

    @property
    def layers(self) -> RegisteredModel:
        """The layer collection."""
        return self._collection

    @property
    def mat_type(self) -> str:
        """The estimated matrix, "Fisher", "Empirical_Fisher" or "GGN"."""
        return self._mode.mat_type

    @property
    def params_stats(self) -> tuple[Tensor, ...]:
        """The gradient of the mean of what is propagated back, for each of `variables`.

        In "empirical" mode this is the gradient of the mean loss.

        Raises:
          ValueError: The estimator was made without compute_params_stats=True.
        """
        if not self._compute_params_stats:
            raise ValueError(
                f"{self.name} has no params_stats: it was made with compute_params_stats=False. "
                "Pass compute_params_stats=True, and batch_size."
            )
        self._make_factors()
        return self._params_stats

    @property
    def blocks(self) -> tuple[FisherBlock, ...]:
        """The blocks, in order of registration."""
        return self._collection.get_blocks()

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors, in the order of the thunks; makes them at first use."""
        self._make_factors()
        return self._collection.get_factors()

    @property
    def cov_variables(self) -> list[Variable]:
        """The variables of all averages and of sums for them, and the sample step."""
        averages = [v for factor in self.factors for v in factor.cov_variables]
        sums = [*self._sums.variables, self._sums.refused] if self._sums else []
        return [*averages, *sums, self._backward_passes().sample_step]

    @property
    def inv_variables(self) -> list[Variable]:
        """The variables of all inverses, and their counters."""
        return [v for factor in self.factors for v in factor.inv_variables]

    @property
    def placement(self) -> Placement:
        """Devices of all work; makes the factors at first use."""
        return self._make_factors()

    @property
    def inverse_devices(self) -> list[str]:
        """The device on which each factor is inverted; "" means no preference."""
        return [place.compute for place in self.placement.inv]

    def _backward_passes(self) -> BackwardPasses:
        """Returns the backward passes. Finalizes the collection first."""
        if self._passes is None:
            if not self._collection.is_final:
                self._collection.finalize()
            self._collection.check_registration(self.variables)
            self._passes = BackwardPasses(self.name, self._mode, self._collection, self._colocate)
        return self._passes

    def _make_factors(self) -> Placement:
        """Makes factors of the gradients of the first pass, and decides on devices, once."""
        if self._placement is not None:
            return self._placement
        variables = self.variables if self._compute_params_stats else ()
        backward = self._backward_passes().of_factors(variables)
        with v1.name_scope(self.name):
            if self._batch_size is not None:
                batch_size = checked_batch_size(self._batch_size, self._collection)
                self._params_stats = first_order_statistics(backward, variables, batch_size)
            first = 0
            for block in self.blocks:
                tensors = block.tensors_to_compute_grads()
                block.instantiate_factors(block_gradients(backward, first, tensors), self._damping)
                first += len(tf.nest.flatten(tensors))
                for function in self._served.all:
                    block.register(function)
                block.check_shapes()
        # Blocks of the parameters themselves name no device; they go where the others are.
        layers = distinct(device for block in self.blocks for device in block.devices)
        devices = Devices(*self._devices, tuple(filter(None, layers)) or layers)
        costs = placement_costs(self.blocks, self._collection.get_factors())
        self._placement = self._strategy(costs, devices)
        return self._placement

    def multiply_function(
        self,
        function: MatrixFunction,
        vecs_and_vars: VectorsAndVariables,
        transpose: bool = False,
        from_identity: bool = False,
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by a function f of the damped block-diagonal matrix M.

        f(M) has a block for each block of M: f of that block.

        Args:
          function: f, one of those that the constructor was asked for, or M itself.
          vecs_and_vars: (vector, variable) for every registered variable, shaped alike.
          transpose: True to multiply by the transpose.
          from_identity: True if a block whose inverse was not computed yet is made of identity
            matrices, which are damped like its factors. If not, its products with functions that
            are kept are zero.

        Returns:
          (product, variable) in the same order, with averages and inverses as they are.

        Raises:
          ValueError: The function is not served, or a registered variable has no vector.
        """
        self._served.check(function, self.name)
        self.make_vars()
        vectors = {variable.ref(): vector for vector, variable in vecs_and_vars}
        params = [as_tuple(block.params) for block in self.blocks]
        missing = [name_of(v) for v in itertools.chain(*params) if v.ref() not in vectors]
        if missing:
            raise ValueError(
                f"Cannot multiply with curvature: there are no vectors for {', '.join(missing)}. "
                "Pass (vector, variable) for every registered variable."
            )
        products: dict[Any, Any] = {}
        for block, own, device in zip(self.blocks, params, self.placement.trans, strict=True):
            parts = tuple(vectors[param.ref()] for param in own)
            vector = parts if block.has_bias else parts[0]
            with v1.device(device):
                product = (
                    product_or_identity(block, function, vector, transpose)
                    if from_identity
                    else block.multiply_function(function, vector, transpose)
                )
            products.update(zip((v.ref() for v in own), tf.nest.flatten(product), strict=True))
        return [(products[variable.ref()], variable) for _, variable in vecs_and_vars]

    def make_vars(self) -> None:
        """Makes all variables, once. Must not be called in a conditional branch."""
        # The factors stay the same, but functions may be registered later.
        slots = [slot for factor in self.factors for slot in factor.inverses]
        if slots == self._slots_with_variables:
            return
        placement = self.placement
        for factor, place in zip(self.factors, placement.cov, strict=True):
            factor.instantiate_cov_variables(place.variables)
        for factor, place in zip(self.factors, placement.inv, strict=True):
            factor.instantiate_inv_variables(place.variables)
        self._slots_with_variables = slots

    def fold(
        self,
        indices: Sequence[int] | None,
        should_decay: Tensor | bool = True,
        backward: BackwardPass | None = None,
    ) -> Operation:
        """Returns an op that folds a batch into some averages; into none if it is not finite.

        Args:
          indices: Numbers of the factors; None means all.
          should_decay: bool []; when false the past keeps its full weight.
          backward: The backward pass to use, unless there are sums to use; None means the one that
            always runs.
        """
        self._make_factors()
        decay = self._cov_ema_decay
        if should_decay is not True:
            decay = tf.where(should_decay, tensor_ops.as_scalar(decay, tf.float64), 1.0)
        indices = range(len(self.factors)) if indices is None else indices
        factors = [self.factors[index] for index in indices]
        if self._sums is not None:
            # The sums are on the device of the update.
            devices = [self._sums.variables[index].device for index in indices]
            statistics, taken = self._sums.taken(indices)
            folded = fold_statistics(factors, devices, statistics, decay)
            return group(*folded, assign_all(taken))
        passes = self._backward_passes()
        backward = backward or passes.always()
        devices = [self.placement.cov[index].compute for index in indices]
        substitutes = passes.substitutes(backward)
        folded = fold_batch(factors, devices, substitutes, backward.is_finite, decay)
        used = Assignment(passes.sample_step, backward.next_step)
        return group(*folded, assign_all([used]))

    def refresh(self, indices: Sequence[int]) -> Operation:
        """Returns an op that recomputes the inverses of some factors, by their numbers."""
        devices = self.inverse_devices
        factors = [self.factors[index] for index in indices]
        return inverse_update(factors, [devices[index] for index in indices])

    def make_cov_update_op(
        self, due: Tensor | bool = True, should_decay: Tensor | bool = True
    ) -> Operation:
        """Returns an op that folds the current batch into all moving averages.

        After `make_accumulation_op` it folds what was added up instead, and starts the sums anew.

        Args:
          due: bool []. When it is false the op does nothing, at no cost. A Python True builds no
            branch.
          should_decay: bool []. When it is false, as in a burn-in, the past keeps its full weight.
        """
        update = functools.partial(self.fold, None, should_decay)
        if self._sums:
            self.make_vars()
            with v1.name_scope(f"{self.name}/update_averages"):
                return run_if(due, update)
        return self._use_batch("update_averages", due, lambda backward: update(backward=backward))

    def make_accumulation_op(self, due: Tensor | bool = True) -> Operation:
        """Returns an op that adds the statistics of the current batch to sums.

        The updates of averages that are made afterwards, in Python's order, fold the sums: several
        micro-batches count as the one batch that they are parts of.

        Args:
          due: bool []. When it is false the op does nothing, at no cost. A Python True builds no
            branch.
        """

        def add(backward: BackwardPass) -> Operation:
            passes, sums = self._backward_passes(), typing.cast(BatchSums, self._sums)
            changes = sums.added(passes.substitutes(backward), backward.is_finite)
            return assign_all([*changes, Assignment(passes.sample_step, backward.next_step)])

        return self._use_batch("accumulate", due, add, makes_sums=True)

    def _use_batch(
        self,
        scope: str,
        due: Tensor | bool,
        use: Callable[[BackwardPass], Operation],
        makes_sums: bool = False,
    ) -> Operation:
        """Returns an op that uses the backward pass of a batch when it is due, and times that.

        Makes all variables. Where the first statistics are needed only at times, so is the backward
        pass, and factors are made of stand-ins for it.

        Args:
          scope: Name scope of the op.
          due: bool [], or a Python True.
          use: Returns the op. It is called where operations run only when they are due, perhaps in
            a branch.
          makes_sums: True to make the sums before.
        """
        passes = self._backward_passes()
        start = self.times.begin("covariance", [*self._collection.loss_colocation_ops.values()])
        is_always, backward = due is True, None
        is_first = passes.are_none and not self._compute_params_stats
        if not is_always and not is_in_function() and is_first and may_stand_in(self.blocks):
            with v1.control_dependencies([start]):
                due = Gate(due)
                backward = passes.behind(due)
            for factor in self.factors:
                factor.stand_for(passes.substitutes)
        self.make_vars()
        if makes_sums:
            self._sums = self._sums or BatchSums(self.factors, self.placement.cov)

        def used() -> Operation:
            made = backward or (passes.always() if is_always else passes.new())
            # Changes wait for the time to be read, but not what they are made of, save in a branch.
            with v1.control_dependencies([start]):
                is_finite = tf.identity(made.is_finite)
            return self.times.end("covariance", start, use(made._replace(is_finite=is_finite)))

        waits = [] if is_always else [start]
        with v1.name_scope(f"{self.name}/{scope}"), v1.control_dependencies(waits):
            return run_if(due, used)

    def has_averages(self) -> Tensor:
        """Returns bool [], true once a batch was folded into all averages."""
        return tf.reduce_all([factor.read_weight() > 0 for factor in self.factors])

    def has_statistics(self) -> Tensor:
        """Returns bool [], true if `make_accumulation_op` added any since the last update."""
        return tf.constant(False) if self._sums is None else tf.logical_not(self._sums.is_empty())

    def has_refused(self) -> Tensor:
        """Returns bool [], true once `make_accumulation_op` has left out a batch."""
        return tf.constant(False) if self._sums is None else read(self._sums.refused) > 0

    def make_inv_update_op(
        self, due: Tensor | bool = True, indices: Sequence[int] | None = None
    ) -> Operation:
        """Returns an op that recomputes inverses.

        It must run after the update of the averages, not beside it, when it is due.

        Args:
          due: bool []. When it is false the op does nothing. A Python True builds no branch.
          indices: Numbers of the factors; None means all.
        """
        self.make_vars()
        chosen = range(len(self.factors)) if indices is None else indices
        with v1.name_scope(f"{self.name}/update_inverses"):
            start = self.times.begin("inverse", after=[] if due is True else [due])
            with v1.control_dependencies([start]):
                return run_if(due, lambda: self.times.end("inverse", start, self.refresh(chosen)))

    def make_inv_update_op_by_shares(
        self, due: Tensor, shares: Sequence[Sequence[int]]
    ) -> Operation:
        """Returns an op that recomputes the inverses of those shares that are due.

        It must run after the update of the averages, not beside it, when any share is due.

        Args:
          due: bool [shares]. The op does nothing for a share whose entry is false.
          shares: Numbers of the factors of each share.
        """
        self.make_vars()
        with v1.name_scope(f"{self.name}/update_inverses"):
            start = self.times.begin("inverse", after=[due])
            with v1.control_dependencies([start]):
                with v1.device(CPU):
                    is_any, each = tf.reduce_any(due), tf.unstack(due, len(shares))
                done = [
                    run_if(flag, functools.partial(self.refresh, share))
                    for flag, share in zip(each, shares, strict=True)
                ]
            with v1.control_dependencies([group(*done)]):
                return run_if(is_any, lambda: self.times.end("inverse", start, start.op))
