"""The estimator of tensorflow/kfac: one update for each factor, and a product for each function.

Programs that run the updates by themselves use it. K-FAC's own step does not: it updates several
factors at once, and multiplies by functions of the damped matrix.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.curvature.block_products import VectorsAndVariables
from kfac.fisher_factors.base import FisherFactor
from kfac.linalg.damped_functions import (
    INVERSE,
    ITSELF,
    Cholesky,
    CholeskyInverse,
    MatrixFunction,
    Power,
)
from kfac.placement import Place, Placement

v1 = tf.compat.v1

Thunk = Callable[..., Operation]
"""Makes an update op. Ops of averages take `should_decay`, a bool or bool Tensor []."""

VariablesThunk = Callable[[], Sequence[Variable]]
"""Makes the variables of one factor, once, and returns them."""


class Thunks(NamedTuple):
    """Functions that make variables and update ops, each list in the order of the factors."""

    cov_variables: list[VariablesThunk]
    cov_updates: list[Thunk]
    inv_variables: list[VariablesThunk]
    inv_updates: list[Thunk]


class CurvatureOps(NamedTuple):
    """Ops that update the curvature, and functions that make more such ops, by factor.

    `cov_updates` and `inv_updates` update one average or the inverses of one factor each.
    `cov_update` updates all averages; `inv_update` all inverses, without waiting for the averages.
    """

    cov_updates: list[Operation]
    cov_update: Operation
    inv_updates: list[Operation]
    inv_update: Operation
    cov_update_thunks: list[Thunk]
    inv_update_thunks: list[Thunk]


class CurvatureByHand(abc.ABC):
    """The methods of an estimator that programs of tensorflow/kfac call.

    Attributes:
      name: Name scope of ops.
    """

    name: str

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors."""

    @property
    @abc.abstractmethod
    def placement(self) -> Placement:
        """Devices of all work."""

    @abc.abstractmethod
    def make_vars(self) -> None:
        """Makes all variables, once."""

    @abc.abstractmethod
    def fold(self, indices: Sequence[int], should_decay: Tensor | bool) -> Operation:
        """Returns an op that folds the current batch into the averages of some factors."""

    @abc.abstractmethod
    def refresh(self, indices: Sequence[int]) -> Operation:
        """Returns an op that recomputes the inverses of some factors."""

    @abc.abstractmethod
    def multiply_function(
        self,
        function: MatrixFunction,
        vecs_and_vars: VectorsAndVariables,
        transpose: bool = False,
        from_identity: bool = False,
    ) -> list[tuple[Any, Variable]]:
        """Multiplies vectors by a function of the damped matrix M."""

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

    def create_ops_and_vars_thunks(self, scope: str | None = None) -> Thunks:
        """Returns functions that make variables and ops, one of each kind per factor.

        Args:
          scope: Name scope of the ops; None means the estimator's name.

        Returns:
          (cov variables, cov updates, inv variables, inv updates), each in the order of
          `factors`. The variables of a factor must be made before its updates, and outside of
          conditional branches. Cov updates take `should_decay`, a bool or a bool Tensor []: when
          it is false, as in a burn-in, the past keeps its full weight. Inverse updates must run
          after cov updates, not beside them.
        """
        name, factors = scope or self.name, self.factors
        of_averages, of_inverses = (
            list(zip(factors, places, strict=True))
            for places in (self.placement.cov, self.placement.inv)
        )

        def cov_variables(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_cov_variables(place.variables)
            return factor.cov_variables

        def inv_variables(factor: FisherFactor, place: Place) -> Sequence[Variable]:
            factor.instantiate_inv_variables(place.variables)
            return factor.inv_variables

        def cov_update(index: int, should_decay: Tensor | bool = True) -> Operation:
            with v1.name_scope(f"{name}/cov_update_{index}"):
                return self.fold([index], should_decay)

        def inv_update(index: int) -> Operation:
            with v1.name_scope(f"{name}/inv_update_{index}"):
                return self.refresh([index])

        return Thunks(
            [functools.partial(cov_variables, *each) for each in of_averages],
            [functools.partial(cov_update, index) for index in range(len(factors))],
            [functools.partial(inv_variables, *each) for each in of_inverses],
            [functools.partial(inv_update, index) for index in range(len(factors))],
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
