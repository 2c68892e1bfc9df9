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
