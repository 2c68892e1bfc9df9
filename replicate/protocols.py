"""Agreements between `replicate` and optimizers that need more than gradients, such as K-FAC.

Neither side imports the other. They share keys of collections of a graph, and methods that one side
calls if an object of the other has them. `kfac.protocols` has the other half, and
`replicate.canned.model_record` the part about canned estimators. A test compares both, and
docs/explanations/protocols.md explains them.

No key is a string, so that an exported MetaGraph does not contain the collections.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from replicate._types import Operation, Tensor, Variable

VARIABLE_NOTES = ("variable_notes",)
"""Key of functions that describe variables for the model table."""

OPTIONAL_STATE = ("replicate", "optional_state")
"""Key of the owners of variables that a checkpoint may lack."""

PART_OF_LOSS = ("towers", "part_of_loss")
"""Key of a function from the current tower's loss to its part of the whole batch's loss."""

SHARED = ("towers", "shared")
"""Key of a function that makes an object once for all towers of a model that knows nothing of them.

The n-th call in each tower returns the same object.
"""

VariableNotes: TypeAlias = Callable[[], Mapping[str, str]]
"""A function that returns a note by the name of a variable, without ":0"."""

PartOfLoss: TypeAlias = Callable[[Tensor], Tensor]
"""A function from the loss of the current tower, [], to its part of the batch's loss, []."""


Shared: TypeAlias = Callable[[Callable[[], Any]], Any]
"""A function from one that makes an object to that object, which all towers share."""


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
