"""The shapes in which an estimator hands out its update ops, and functions that make them.

Values without behaviour: when ops run is the optimizer's business, or the user's. Called by the
estimator and by everything that passes its ops on.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kfac._types import Operation, Variable

Thunk = Callable[..., Operation]
"""Makes an update op. Those of averages take `should_decay`, a bool or bool Tensor []."""

VariablesThunk = Callable[[], Sequence[Variable]]
"""Makes the variables of one factor, once, and returns them."""


class Thunks(NamedTuple):
    """Functions that make variables and ops, each list in the order of the factors.

    Attributes:
      cov_variables: Make the variables of averages.
      cov_updates: Make the ops that update them.
      inv_variables: Make the variables of inverses.
      inv_updates: Make the ops that update them.
    """

    cov_variables: list[VariablesThunk]
    cov_updates: list[Thunk]
    inv_variables: list[VariablesThunk]
    inv_updates: list[Thunk]


class CurvatureOps(NamedTuple):
    """Ops that update the curvature, and functions that make more of them, by factor.

    Attributes:
      cov_updates: Update one average each.
      cov_update: Updates all averages.
      inv_updates: Update the inverses of one factor each.
      inv_update: Updates all inverses; does not wait for the averages.
      cov_update_thunks: Make ops like `cov_updates`.
      inv_update_thunks: Make ops like `inv_updates`.
    """

    cov_updates: list[Operation]
    cov_update: Operation
    inv_updates: list[Operation]
    inv_update: Operation
    cov_update_thunks: list[Thunk]
    inv_update_thunks: list[Thunk]
