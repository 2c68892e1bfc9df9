"""Agreements between K-FAC and `replicate`, which do not import each other.

They share keys of collections of a graph, and methods that one side calls if an object of the other
has them. This file says what each means. `replicate.protocols` and `replicate.canned.model_record`
are the other side; a test compares both.

One side adds to a collection, the other reads it. No key is a string, so that an exported MetaGraph
does not contain the collections.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from kfac._types import Operation, Scalar, Tensor, Variable

VARIABLE_NOTES = ("variable_notes",)
"""Key of `VariableNotes`: how variables are preconditioned.

A `LayerCollection` adds one; the Estimator reads them for its table of variables.
"""

OPTIONAL_STATE = ("replicate", "optional_state")
"""Key of `StateOwner`s, whose variables a checkpoint may lack.

K-FAC's optimizers add the owner of state that checkpoints of version 0.2.0 lack, canned estimators
the state of their optimizers. The Estimator reads them when it restores.
"""

PART_OF_LOSS = ("towers", "part_of_loss")
"""Key of a `PartOfLoss`, from the loss of a tower to its part of a sum over towers.

Code that weights the towers' gradients where they are applied keeps its function there while it
builds a tower. K-FAC's `compute_gradients` reads it, to know the loss of the whole batch. Without
one, losses are such parts already.
"""

SHARED = ("towers", "shared")
"""Key of a `Shared`, which makes an object once for all towers.

Code that builds towers of a model that knows nothing of them keeps its function there while it
builds one. The n-th call in each tower returns the same object. A `LayerCollection` reads it, to be
the same one in all towers, and so do its losses without a name.
"""

WORKERS = ("workers", "sums")
"""Key of the `Workers` of a graph that several equal processes train, without parameter servers.

The Estimator adds them while it builds the model. K-FAC sums its statistics and divides its
inverses by them.
"""

AVERAGED_IN_ROUNDS = ("workers", "averaged_in_rounds")
"""Key of `AveragedInRounds`: state to average over workers that train apart and meet in rounds.

An optimizer adds it when it makes its step. `replicate.AllReduce(every=…)` reads it.
"""

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
    """An owner of variables that a checkpoint may lack."""

    def get_name(self) -> str:
        """Returns the name of the owner, for messages."""

    def variables(self) -> list[Variable]:
        """Returns the variables that exist, once the graph is complete."""


@runtime_checkable
class AccumulatesStatistics(Protocol):
    """An optimizer that needs more than gradients of each micro-batch.

    One without the method, or with None in its place, needs gradients only.
    """

    def accumulate_statistics(self) -> Operation:
        """Returns an op that a wrapper runs for each micro-batch of an update, the last one too.

        `replicate.TowerOptimizer` with `accumulate_steps` calls it once, before `apply_gradients`.
        """


class Workers(Protocol):
    """Sums over equal processes, each of which has all variables and makes the same update.

    Every worker must make the same calls in the same order, and run them in the same steps.
    """

    @property
    def size(self) -> int:
        """Number of workers."""

    @property
    def rank(self) -> int:
        """Number of this worker, from 0."""

    def share(self, averages: bool) -> Tensor:
        """Returns the factor of this worker's losses in their sum over workers, float64 [].

        Args:
          averages: True if losses are means over rows. With False it is 1, or 0 without a batch.
        """

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns sums over all workers, the same to the bit on each."""

    def total(self, loss: Tensor, averages: bool) -> Tensor:
        """Returns the loss of the batches of all workers, []."""

    def agreed(self, flags: Tensor) -> Tensor:
        """Returns which of the booleans [flags] are True on all workers with a batch."""


class CannedLoss(Protocol):
    """A loss of a canned model: a negative log-likelihood."""

    @property
    def kind(self) -> str:
        """One of "multi_bernoulli", "categorical" and "squared_error"."""

    @property
    def logits(self) -> Tensor:
        """Logits [batch, ..., outputs]."""

    @property
    def weights(self) -> Tensor:
        """A scalar if there are none, or [batch, ..., 1], or shaped as the logits."""

    @property
    def coefficient(self) -> Scalar:
        """Factor of the negative log-likelihood in the mean loss."""

    @property
    def name(self) -> str | None:
        """Name that tells several losses apart, or None."""


class CannedLayer(Protocol):
    """A layer of a canned model."""

    @property
    def kind(self) -> Literal["dense", "embedding"]:
        """Kind of the layer."""

    @property
    def kernel(self) -> Variable:
        """Variable [inputs, outputs]."""

    @property
    def bias(self) -> Variable | None:
        """Variable [outputs], or None."""

    @property
    def inputs(self) -> Tensor:
        """Inputs [batch, inputs], or ids [batch] of an embedding."""

    @property
    def outputs(self) -> Tensor:
        """Outputs [batch, outputs], before the activation."""


class CannedModel(Protocol):
    """Record of a canned model, or of the part of it that one optimizer trains."""

    @property
    def losses(self) -> Sequence[CannedLoss] | None:
        """Losses whose sum is the training loss without regularization; None if not known."""

    @property
    def layers(self) -> Sequence[CannedLayer]:
        """Layers of which all inputs and outputs are known."""

    @property
    def variables(self) -> Sequence[Variable]:
        """All variables that the optimizer trains, also those of no layer."""

    @property
    def loss_reduction(self) -> str:
        """Value of `tf.losses.Reduction` or `tf.compat.v1.losses.Reduction`."""

    @property
    def head(self) -> str:
        """Name of the kind of head, for errors."""

    @property
    def known_losses(self) -> str:
        """Losses that are known, for errors."""


@runtime_checkable
class RegistersModel(Protocol):
    """A function that makes an optimizer, and is told about the model before.

    Canned estimators take it as `optimizer`. A function without `register` is only called.
    """

    def register(self, model: CannedModel) -> None:
        """Takes the record of the model of the current tower; called in each tower."""

    def __call__(self) -> Any:
        """Returns the optimizer; called after `register`."""
