"""The interface of a registered model, as the estimator and the optimizers read it.

`LayerCollection` is such a model. Its readers know blocks, factors and losses, but no kind of layer
and no way to register one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kfac._types import Operation, Variable
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.loss_functions.base import LossFunction
from kfac.registration.loss_table import RegisteredLosses


class RegisteredModel(RegisteredLosses, Protocol):
    """The layers, parameters and losses of one model, over all its towers."""

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """All parameters of all layers, in order of registration."""

    @property
    def loss_colocation_ops(self) -> Mapping[LossFunction, Operation]:
        """The op that computes the inputs of each loss in `losses`, and says where it is."""

    @property
    def is_final(self) -> bool:
        """True when registration is over."""

    def get_blocks(self) -> tuple[FisherBlock, ...]:
        """Returns the blocks in order of registration."""

    def get_factors(self) -> tuple[FisherFactor, ...]:
        """Returns the factors in the order in which they were made."""

    def finalize(self) -> None:
        """Ends registration and checks that the towers agree."""

    def check_registration(self, variables: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered, with all their uses."""

    def describe(self) -> dict[str, str]:
        """Returns for each parameter's name how it is preconditioned."""

    def report(self) -> str:
        """Returns a table: each layer with its block, its factors, their sizes and devices."""
