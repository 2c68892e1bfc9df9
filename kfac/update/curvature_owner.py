"""What an optimizer shows of the curvature that it trains with, and lets its user update.

All of it is the Fisher estimator's; here is also the check that gradients belong to registered
variables. Extended by the optimizer.
"""

from collections.abc import Sequence
from typing import Any

from kfac._types import GradsAndVars, Tensor, Variable
from kfac.curvature.update_thunks import CurvatureOps, Thunk, Thunks
from kfac.estimator import FisherEstimator
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.kronecker import KroneckerBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.matrix import DiagonalFactor
from kfac.layer_collection import LayerCollection
from kfac.linalg.vectors import Vector, as_vector


class CurvatureOwner:
    """Has a Fisher estimator."""

    _estimator: FisherEstimator
    _begins_with_identity: bool
    """Whether a block without an inverse counts as a damped identity matrix, and not as nothing."""

    @property
    def layers(self) -> LayerCollection:
        """The layer collection."""
        return self._estimator.layers

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """The parameters that are registered."""
        return self.layers.registered_variables

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The Kronecker factors; ends registration at first use."""
        return self._estimator.factors

    @property
    def mat_type(self) -> str:
        """What is estimated: "Fisher", "Empirical_Fisher" or "GGN"."""
        return self._estimator.mat_type

    @property
    def params_stats(self) -> tuple[Tensor, ...]:
        """First-order statistics, by registered variable; see `FisherEstimator.params_stats`.

        Raises:
          ValueError: The optimizer was made without compute_params_stats=True.
        """
        return self._estimator.params_stats

    def get_cov_vars(self) -> list[Variable]:
        """Returns the variables of all moving averages, and the sample step."""
        return self._estimator.get_cov_vars()

    def get_inv_vars(self) -> list[Variable]:
        """Returns the variables of all inverses."""
        return self._estimator.get_inv_vars()

    def make_vars_and_create_op_thunks(
        self, scope: str | None = None
    ) -> tuple[list[Thunk], list[Thunk]]:
        """Makes the curvature's variables; see `FisherEstimator.make_vars_and_create_op_thunks`.

        Args:
          scope: Name scope of the ops.

        Returns:
          (cov updates, inv updates). Run the latter after the former, and both before the step.
        """
        return self._estimator.make_vars_and_create_op_thunks(scope)

    def create_ops_and_vars_thunks(self, scope: str | None = None) -> Thunks:
        """Returns functions that make variables and ops; see `FisherEstimator`.

        Args:
          scope: Name scope of the ops.
        """
        return self._estimator.create_ops_and_vars_thunks(scope)

    def make_ops_and_vars(self, scope: str | None = None) -> CurvatureOps:
        """Makes all variables and ops at once; see `FisherEstimator.make_ops_and_vars`.

        Args:
          scope: Name scope of the ops.
        """
        return self._estimator.make_ops_and_vars(scope)

    def check_var_list(self, var_list: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered.

        Raises:
          ValueError: Some of them are not, or some others are; the message names them.
        """
        self.layers.check_registration(var_list)

    def check_gradients(self, grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
        """Checks that gradients and registered variables match.

        Args:
          grads_and_vars: As in `apply_gradients`.

        Returns:
          The pairs that have a gradient.

        Raises:
          ValueError: They do not match; the message names the variables.
        """
        pairs = [(gradient, v) for gradient, v in grads_and_vars if gradient is not None]
        present = {variable.ref() for _, variable in pairs}
        registered = {variable.ref() for variable in self.registered_variables}
        uncovered = [v.op.name for _, v in pairs if v.ref() not in registered]
        if uncovered:
            raise ValueError(
                f"K-FAC cannot train {', '.join(uncovered)}: no layer registered in "
                f"{self.layers.name} covers them. Register their layers with "
                "register_fully_connected or register_conv2d (a bias goes with its weight, as "
                "(weight, bias)), or train them with another optimizer and leave them out of "
                "var_list."
            )
        unreached = [v.op.name for v in self.registered_variables if v.ref() not in present]
        if unreached:
            raise ValueError(
                f"K-FAC has no gradient for {', '.join(unreached)}, which are registered in "
                f"{self.layers.name}. Pass the gradients of all registered variables; see "
                "that the loss depends on them, or do not register their layers."
            )
        return pairs

    def _as_vectors(self, pairs: Sequence[tuple[Any, Variable]]) -> list[Vector]:
        """Returns gradients as a vector; they stay sparse where the block multiplies such."""
        keep = {
            param.ref()
            for block in self._estimator.blocks
            if isinstance(block, KroneckerBlock) and isinstance(block.input_factor, DiagonalFactor)
            for param in as_tuple(block.params)
        }
        return [as_vector(gradient, v, v.ref() in keep) for gradient, v in pairs]

    def _precondition(
        self, vectors: Sequence[Vector], variables: Sequence[Variable]
    ) -> list[Vector]:
        pairs = list(zip(vectors, variables, strict=True))
        products = self._estimator.multiply_inverse(pairs, self._begins_with_identity)
        return [product for product, _ in products]

    def _multiply(self, vectors: Sequence[Vector], variables: Sequence[Variable]) -> list[Vector]:
        pairs = list(zip(vectors, variables, strict=True))
        products = self._estimator.multiply(pairs, self._begins_with_identity)
        return [product for product, _ in products]
