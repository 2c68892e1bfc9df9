"""Types of the update ops that an estimator hands out, and of functions that make them.

Values without behaviour: the optimizer or the user decides when ops run. Called by the estimator
and by everything that passes its ops on.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kfac._types import Operation, Variable

Thunk = Callable[..., Operation]
"""Makes an update op. Ops of averages take `should_decay`, a bool or bool Tensor []."""

VariablesThunk = Callable[[], Sequence[Variable]]
"""Makes the variables of one factor, once, and returns them."""


class Thunks(NamedTuple):
    """Functions that make variables and ops; each list is in the order of the factors.

    Attributes:
      cov_variables: Functions that make the variables of averages.
      cov_updates: Functions that make the ops that update averages.
      inv_variables: Functions that make the variables of inverses.
      inv_updates: Functions that make the ops that update inverses.
    """

    cov_variables: list[VariablesThunk]
    cov_updates: list[Thunk]
    inv_variables: list[VariablesThunk]
    inv_updates: list[Thunk]


class CurvatureOps(NamedTuple):
    """Ops that update the curvature, and functions that make more such ops, by factor.

    Attributes:
      cov_updates: Ops that update one average each.
      cov_update: Op that updates all averages.
      inv_updates: Ops that update the inverses of one factor each.
      inv_update: Op that updates all inverses; does not wait for the averages.
      cov_update_thunks: Functions that make ops like `cov_updates`.
      inv_update_thunks: Functions that make ops like `inv_updates`.
    """

    cov_updates: list[Operation]
    cov_update: Operation
    inv_updates: list[Operation]
    inv_update: Operation
    cov_update_thunks: list[Thunk]
    inv_update_thunks: list[Thunk]
