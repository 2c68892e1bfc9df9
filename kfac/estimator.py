"""The Fisher estimator: statistics by back-propagation, inverses, and products with them.

Drives blocks and factors: builds one backward pass over all towers, decides on devices, makes all
variables and update ops. When these run is the optimizer's business, or the user's.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §5 and §6.
"""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.arguments import check_choice
from kfac.curvature.accumulation import BatchSums
from kfac.curvature.averaging import Batch, fold_batch, fold_statistics
from kfac.curvature.backward_pass import (
    BackwardPass,
    block_gradients,
    checked_batch_size,
    first_order_statistics,
)
from kfac.curvature.block_products import (
    ServedFunctions,
    VectorsAndVariables,
    join_blocks,
    product_or_identity,
    split_into_blocks,
)
from kfac.curvature.estimation_modes import MODES, mode_of
from kfac.curvature.passes import BackwardPasses, may_stand_in
from kfac.curvature.shared_work import inverse_update
from kfac.curvature.timing import PhaseTimes
from kfac.curvature.update_thunks import CurvatureOps, Thunk, Thunks, VariablesThunk
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import MatrixSlot
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import (
    INVERSE,
    ITSELF,
    Cholesky,
    CholeskyInverse,
    MatrixFunction,
    Power,
)
from kfac.placement import STRATEGIES, Devices, Place, Placement, distinct, placement_costs
from kfac.registration.registered_model import RegisteredModel
from kfac.state import (
    CPU,
    Assignment,
    Gate,
    assign_all,
    group,
    is_in_function,
    read,
    run_if,
)

v1 = tf.compat.v1

ESTIMATION_MODES = tuple(MODES)


class _Plan(NamedTuple):
    """All that is fixed when the estimator is first used.

    Attributes:
      placement: Devices of all work.
      params_stats: Gradients of the signal with respect to the variables, or nothing.
    """

    placement: Placement
    params_stats: tuple[Tensor, ...]


class _Statistics(NamedTuple):
    """Statistics of a batch that have begun.

    Attributes:
      due: When to compute them: a bool [] or a Python True, or the gate that the backward pass is
        behind.
      start: Time at which they began.
      backward: The backward pass, if it is made already.
    """

    due: Tensor | Gate | bool
    start: Tensor
    backward: BackwardPass | None = None


def make_fisher_estimator(
    placement_strategy: str | None = None, **kwargs: Any
) -> "FisherEstimator":
    """Returns a Fisher estimator.

    Args:
      placement_strategy: None spreads the work over devices by cost, "round_robin" in turn.
      **kwargs: The arguments of `FisherEstimator`.

    Raises:
      ValueError: The strategy is unknown, or as in `FisherEstimator`.
    """
    return FisherEstimator(placement_strategy=placement_strategy, **kwargs)


@typing.final
class FisherEstimator:
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
        self._place = STRATEGIES[placement_strategy]
        self._plan: _Plan | None = None
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
        return self._instantiate().params_stats

    @property
    def blocks(self) -> tuple[FisherBlock, ...]:
        """The blocks, in order of registration."""
        return self._collection.get_blocks()

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors, in the order of the thunks; makes them at first use."""
        self._instantiate()
        return self._collection.get_factors()

    def get_cov_vars(self) -> tuple[list[Tensor], ...]:
        """Returns the moving averages of each factor, read now, in the order of `factors`.

        Most factors have one. All are NaN before the first update. Makes all variables.
        """
        self.make_vars()
        return tuple(factor.get_cov_vars() for factor in self.factors)

    def get_inv_vars(self) -> tuple[list[Variable], ...]:
        """Returns the variables of the inverses of each factor, in the order of `factors`.

        They are zero before the first update. Makes all variables.
        """
        self.make_vars()
        return tuple(factor.get_inv_vars() for factor in self.factors)

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

    def _instantiate(self) -> _Plan:
        """Finalizes the collection, makes factors and places them; once."""
        if self._plan is None:
            variables = self.variables if self._compute_params_stats else ()
            self._plan = self._planned(self._backward_passes().always(variables))
        return self._plan

    def _backward_passes(self) -> BackwardPasses:
        """Returns the backward passes. Finalizes the collection first."""
        if self._passes is None:
            if not self._collection.is_final:
                self._collection.finalize()
            self._collection.check_registration(self.variables)
            self._passes = BackwardPasses(self.name, self._mode, self._collection, self._colocate)
        return self._passes

    def _planned(self, backward: BackwardPass) -> _Plan:
        with v1.name_scope(self.name):
            params_stats = self._first_order_statistics(backward)
            self._instantiate_factors(backward)
        return _Plan(self._placement(), params_stats)

    def _first_order_statistics(self, backward: BackwardPass) -> tuple[Tensor, ...]:
        if self._batch_size is None:
            return ()
        batch_size = checked_batch_size(self._batch_size, self._collection)
        if not self._compute_params_stats:
            return ()
        return first_order_statistics(backward, self.variables, batch_size)

    def _instantiate_factors(self, backward: BackwardPass) -> None:
        """Makes the factors of all blocks and asks for the functions of them that are served."""
        first = 0
        for block in self.blocks:
            tensors = block.tensors_to_compute_grads()
            block.instantiate_factors(block_gradients(backward, first, tensors), self._damping)
            first += len(tf.nest.flatten(tensors))
            for function in self._served.all:
                block.register(function)
            block.check_shapes()

    def _placement(self) -> Placement:
        costs = placement_costs(self.blocks, self._collection.get_factors())
        layers = distinct(device for block in self.blocks for device in block.devices)
        # Blocks of the parameters themselves name no device; they go where the others are.
        named = tuple(device for device in layers if device)
        return self._place(costs, Devices(*self._devices, named or layers))

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
        blocks, devices = self.blocks, self._instantiate().placement.trans
        vectors = split_into_blocks(blocks, vecs_and_vars)
        products = []
        for block, vector, device in zip(blocks, vectors, devices, strict=True):
            with v1.device(device):
                products.append(
                    product_or_identity(block, function, vector, transpose)
                    if from_identity
                    else block.multiply_function(function, vector, transpose)
                )
        return join_blocks(blocks, products, [variable for _, variable in vecs_and_vars])

    def multiply(
        self, vecs_and_vars: VectorsAndVariables, from_identity: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M, with the averages as they are; see `multiply_function`."""
        return self.multiply_function(ITSELF, vecs_and_vars, from_identity=from_identity)

    def multiply_inverse(
        self, vecs_and_vars: VectorsAndVariables, from_identity: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M⁻¹, with the inverses as they are; see `multiply_function`."""
        return self.multiply_function(INVERSE, vecs_and_vars, from_identity=from_identity)

    def multiply_matpower(
        self, exp: float, vecs_and_vars: VectorsAndVariables
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by M to the power `exp`; see `multiply_function`."""
        return self.multiply_function(Power(exp), vecs_and_vars)

    def multiply_cholesky(
        self, vecs_and_vars: VectorsAndVariables, transpose: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by L, or by Lᵀ, where LLᵀ = M; see `multiply_function`.

        A block of L is the Cholesky factor of that of M. For a Kronecker product it is the product
        of the two lower triangular factors.
        """
        return self.multiply_function(Cholesky(), vecs_and_vars, transpose)

    def multiply_cholesky_inverse(
        self, vecs_and_vars: VectorsAndVariables, transpose: bool = False
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by L⁻¹, or by its transpose; see `multiply_cholesky`."""
        return self.multiply_function(CholeskyInverse(), vecs_and_vars, transpose)

    def make_vars(self) -> None:
        """Makes all variables, once. Must not be called in a conditional branch."""
        # The factors stay the same, but functions may be registered later.
        slots = [slot for factor in self.factors for slot in factor.inverses]
        if slots == self._slots_with_variables:
            return
        for make in (*self._cov_variable_thunks(), *self._inv_variable_thunks()):
            make()
        self._slots_with_variables = slots

    def _cov_variable_thunks(self) -> list[VariablesThunk]:
        def make(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_cov_variables(place.variables)
            return factor.cov_variables

        places = self._instantiate().placement.cov
        return [functools.partial(make, *pair) for pair in zip(self.factors, places, strict=True)]

    def _inv_variable_thunks(self) -> list[VariablesThunk]:
        def make(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_inv_variables(place.variables)
            return factor.inv_variables

        places = self._instantiate().placement.inv
        return [functools.partial(make, *pair) for pair in zip(self.factors, places, strict=True)]

    def _update_averages(
        self, indices: Sequence[int], backward: BackwardPass, should_decay: Tensor | bool
    ) -> Operation:
        """Returns an op that folds a batch into some averages; into none if it is not finite.

        Args:
          indices: Which factors.
          backward: The backward pass to use, unless there are sums to use.
          should_decay: bool []; when false the past keeps its full weight.
        """
        decay = self._cov_ema_decay
        if should_decay is not True:
            decay = tf.where(should_decay, tensor_ops.as_scalar(decay, tf.float64), 1.0)
        factors = [self.factors[index] for index in indices]
        if self._sums is not None:
            # The sums are on the device of the update.
            devices = [self._sums.variables[index].device for index in indices]
            statistics, taken = self._sums.taken(indices)
            folded = fold_statistics(factors, devices, statistics, decay)
            return group(*folded, assign_all(taken))
        places, passes = self._instantiate().placement.cov, self._backward_passes()
        devices = [places[index].compute for index in indices]
        batch = Batch(passes.substitutes(backward), backward.is_finite)
        used = Assignment(passes.sample_step, backward.next_step)
        return group(*fold_batch(factors, devices, batch, decay), assign_all([used]))

    @property
    def inverse_devices(self) -> list[str]:
        """The device on which each factor is inverted; "" means no preference."""
        return [place.compute for place in self._instantiate().placement.inv]

    def _update_inverses(self, indices: Sequence[int]) -> Operation:
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

        def update(backward: BackwardPass) -> Operation:
            return self._update_averages(range(len(self.factors)), backward, should_decay)

        if self._sums:
            self.make_vars()
            with v1.name_scope(f"{self.name}/update_averages"):
                return run_if(due, lambda: update(self._backward_passes().of_factors))
        begun = self._begin_statistics(due)
        with v1.name_scope(f"{self.name}/update_averages"):
            return self._timed(begun, update)

    def make_accumulation_op(self, due: Tensor | bool = True) -> Operation:
        """Returns an op that adds the statistics of the current batch to sums.

        The updates of averages that are made afterwards, in Python's order, fold the sums: several
        micro-batches count as the one batch that they are parts of.

        Args:
          due: bool []. When it is false the op does nothing, at no cost. A Python True builds no
            branch.
        """
        begun, passes = self._begin_statistics(due), self._backward_passes()
        places = self._instantiate().placement.cov
        sums = self._sums = self._sums or BatchSums(self.factors, places)

        def add(backward: BackwardPass) -> Operation:
            changes = sums.added(passes.substitutes(backward), backward.is_finite)
            return assign_all([*changes, Assignment(passes.sample_step, backward.next_step)])

        with v1.name_scope(f"{self.name}/accumulate"):
            return self._timed(begun, add)

    def _begin_statistics(self, due: Tensor | bool) -> _Statistics:
        """Begins the statistics of a batch, and makes all variables.

        Where the first statistics are needed only at times, so is the backward pass, and factors
        are made of stand-ins for it.
        """
        passes = self._backward_passes()
        start = self.times.begin("covariance", [*self._collection.loss_colocation_ops.values()])
        is_first = passes.are_none and not self._compute_params_stats
        if due is True or is_in_function() or not is_first or not may_stand_in(self.blocks):
            self.make_vars()
            return _Statistics(due, start)
        with v1.control_dependencies([start]):
            gate = Gate(due)
            backward = passes.behind(gate)
        self._plan = self._planned(passes.of_factors)
        for factor in self.factors:
            factor.default_substitutes = passes.substitutes
        self.make_vars()
        return _Statistics(gate, start, backward)

    def _timed(self, begun: _Statistics, update: Callable[[BackwardPass], Operation]) -> Operation:
        """Returns an op that ends statistics by an update, and notes the time that they took."""
        due, start, known = begun
        passes = self._backward_passes()

        def timed() -> Operation:
            backward = known or (passes.always() if due is True else passes.new())
            # Changes wait for the time to be read, but not what they are made of, save in a branch.
            with v1.control_dependencies([start]):
                is_finite = tf.identity(backward.is_finite)
            return self.times.end(
                "covariance", start, update(backward._replace(is_finite=is_finite))
            )

        with v1.control_dependencies([] if due is True else [start]):
            return run_if(due, timed)

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

            def update() -> Operation:
                return self.times.end("inverse", start, self._update_inverses(chosen))

            with v1.control_dependencies([start]):
                return run_if(due, update)

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
                    run_if(flag, functools.partial(self._update_inverses, share))
                    for flag, share in zip(each, shares, strict=True)
                ]
            with v1.control_dependencies([group(*done)]):
                return run_if(is_any, lambda: self.times.end("inverse", start, start.op))

    def create_ops_and_vars_thunks(self, scope: str | None = None) -> Thunks:
        """Returns functions that make variables and ops, one of each kind per factor.

        Args:
          scope: Name scope of the ops; None means the estimator's name.

        Returns:
          (cov variables, cov updates, inv variables, inv updates), each in the order of
          `factors`. The variables of a factor must be made before its updates, and outside of
          conditional branches. Cov updates take `should_decay` as in `make_cov_update_op`.
          Inverse updates must run after cov updates, not beside them.
        """
        self._instantiate()
        name, passes = scope or self.name, self._backward_passes()

        def cov_update(index: int, should_decay: Tensor | bool = True) -> Operation:
            with v1.name_scope(f"{name}/cov_update_{index}"):
                return self._update_averages([index], passes.always(), should_decay)

        def inv_update(index: int) -> Operation:
            with v1.name_scope(f"{name}/inv_update_{index}"):
                return self._update_inverses([index])

        indices = range(len(self.factors))
        return Thunks(
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

    def make_ops_and_vars(self, scope: str | None = None) -> CurvatureOps:
        """Makes all variables and one update op per factor and kind.

        Args:
          scope: Name scope of the ops; None means the estimator's name.
        """
        cov_thunks, inv_thunks = self.make_vars_and_create_op_thunks(scope)
        cov_updates, inv_updates = ([make() for make in t] for t in (cov_thunks, inv_thunks))
        name = scope or self.name
        return CurvatureOps(
            cov_updates,
            tf.group(*cov_updates, name=f"{name}/cov_update"),
            inv_updates,
            tf.group(*inv_updates, name=f"{name}/inv_update"),
            cov_thunks,
            inv_thunks,
        )
