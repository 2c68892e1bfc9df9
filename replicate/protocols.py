"""Agreements between `replicate` and optimizers that need more than gradients, such as K-FAC.

Neither side imports the other. `kfac/protocols.py` says what each key and method means, who gives
it and who reads it; a test compares both. `replicate.canned.model_record` has the part about canned
estimators, and `Workers` has more methods here, for this side only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from replicate._types import Gradient, Operation, Tensor, Variable

VARIABLE_NOTES = ("variable_notes",)
OPTIONAL_STATE = ("replicate", "optional_state")
PART_OF_LOSS = ("towers", "part_of_loss")
SHARED = ("towers", "shared")
WORKERS = ("workers", "sums")
AVERAGED_IN_ROUNDS = ("workers", "averaged_in_rounds")

VariableNotes: TypeAlias = Callable[[], Mapping[str, str]]
"""A function that returns a note by the name of a variable, without ":0"."""

PartOfLoss: TypeAlias = Callable[[Tensor], Tensor]
"""A function from the loss of the current tower, [], to its part of the batch's loss, []."""


Shared: TypeAlias = Callable[[Callable[[], Any]], Any]
"""A function from one that makes an object to that object, which all towers share."""


RoundAverage: TypeAlias = tuple[Variable, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
"""A floating-point variable, a linear function that packs its value, and one that undoes it."""


class AveragedInRounds(Protocol):
    """State that becomes its mean over workers in each round, such as the factors of K-FAC."""

    def averages(self) -> Sequence[RoundAverage]:
        """Returns the variables, once the graph is complete."""

    def refresh(self) -> Operation:
        """Returns an op that computes, between two steps, what depends on the averages."""


@runtime_checkable
class StateOwner(Protocol):
    """An owner of variables that a checkpoint may lack, such as an optimizer."""

    def get_name(self) -> str:
        """Returns the name of the owner, for messages."""

    def variables(self) -> list[Variable]:
        """Returns the variables that exist, once the graph is complete."""


@runtime_checkable
class AccumulatesStatistics(Protocol):
    """An optimizer that needs more than gradients of each micro-batch."""

    def accumulate_statistics(self) -> Operation:
        """Returns an op that a wrapper runs for each micro-batch of an update."""


class Workers(Protocol):
    """Sums over equal processes, each of which has all variables and makes the same update."""

    @property
    def size(self) -> int:
        """Number of workers."""

    @property
    def rank(self) -> int:
        """Number of this worker, from 0."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers, by rank."""

    def share(self, averages: bool) -> Tensor:
        """Returns the factor of this worker's losses in their sum over workers, float64 [].

        `averages` is True if losses are means over rows, False if they are sums.
        """

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns sums over all workers, the same to the bit on each."""

    def mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns means over all workers, weighted by the rows of their batches."""

    def of_chief(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns the values of worker 0."""

    def total(self, loss: Tensor, averages: bool) -> Tensor:
        """Returns the loss of the batches of all workers, []."""

    def sum_gradients(
        self, gradients_and_variables: Sequence[tuple[Gradient, Variable]], averages: bool
    ) -> list[tuple[Gradient, Variable]]:
        """Returns gradients of the batches of all workers."""

    def weighted_gradients(
        self, gradients_and_variables: Sequence[tuple[Gradient, Variable]], averages: bool
    ) -> list[tuple[Gradient, Variable]]:
        """Returns this worker's parts of what `sum_gradients` returns; nothing is sent."""

    def agreed(self, flags: Tensor) -> Tensor:
        """Returns which of the booleans [flags] are True on all workers with a batch."""

    def flags_of_each(self, flags: Tensor) -> Tensor:
        """Returns the booleans [flags] of all workers, True for those without a batch."""

    def names_without(self, flag: Tensor) -> Tensor:
        """Returns the names of the workers on which a boolean is False, a string scalar."""
