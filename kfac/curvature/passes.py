"""The backward passes of an estimator: one that always runs, or others that run only at times.

Factors are made of the gradients of the first one. If that runs only when statistics are due, they
are made of stand-ins for its gradients, and nothing else can come to depend on a pass that may not
run. Called by the estimator.
"""

import contextlib
import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.curvature.backward_pass import BackwardPass, propagate_back, stand_ins
from kfac.curvature.estimation_modes import EstimationMode
from kfac.curvature.timing import PhaseTimes
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import Substitutes
from kfac.registration.registered_model import RegisteredModel
from kfac.state import Gate, make_counter, read, run_if

v1 = tf.compat.v1


class BegunStatistics(NamedTuple):
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


@typing.final
class BackwardPasses:
    """Makes backward passes from the losses of a finalized collection, below a name scope.

    Attributes:
      sample_step: int64 variable [], how many times targets were drawn.
    """

    def __init__(
        self,
        name: str,
        mode: EstimationMode,
        collection: RegisteredModel,
        colocate: bool,
        times: PhaseTimes,
    ) -> None:
        """Makes the variable. `colocate` runs the passes where the forward pass ran."""
        self._name = name
        self._mode = mode
        self._collection = collection
        self._colocate = colocate
        self._times = times
        self.sample_step = make_counter("sample_step")
        self._always: BackwardPass | None = None
        self._stand_ins: BackwardPass | None = None

    @property
    def are_none(self) -> bool:
        """True before factors can have been made."""
        return self._always is None and self._stand_ins is None

    @property
    def of_factors(self) -> BackwardPass:
        """The pass that factors are made of, or stand-ins for it."""
        return self._stand_ins or self.always()

    def new(self, variables: Sequence[Variable] = ()) -> BackwardPass:
        """Returns a new pass, to further variables, too."""
        blocks = self._collection.get_blocks()
        return propagate_back(
            self._mode,
            self._collection,
            tf.nest.flatten([block.tensors_to_compute_grads() for block in blocks]),
            variables,
            read(self.sample_step),
            self._colocate,
        )

    def always(self, variables: Sequence[Variable] = ()) -> BackwardPass:
        """Returns the pass that always runs. Only the first call may ask for variables."""
        if self._always is None:
            # Once factors are made, a conditional branch may ask for it.
            scope = contextlib.nullcontext() if self.are_none else tf.init_scope()
            with scope, v1.name_scope(self._name):
                self._always = self.new(variables)
        return self._always

    def behind(self, gate: Gate) -> BackwardPass:
        """Returns the first pass, behind a gate. Factors get stand-ins for it."""
        with v1.name_scope(self._name), gate.open():
            backward = self.new()
        self._stand_ins = stand_ins(backward)
        return backward

    def end(self, begun: BegunStatistics, update: Callable[[BackwardPass], Operation]) -> Operation:
        """Returns an op that ends statistics by an update, and notes the time that they took.

        Args:
          begun: The statistics.
          update: Returns the op that uses the backward pass. Called once, perhaps in a branch.
        """
        due, start, known = begun

        def timed() -> Operation:
            backward = known or (self.always() if due is True else self.new())
            # Changes wait for the time to be read, but not what they are made of, save in a branch.
            with v1.control_dependencies([start]):
                is_finite = tf.identity(backward.is_finite)
            updated = update(backward._replace(is_finite=is_finite))
            return self._times.end("covariance", start, updated)

        with v1.control_dependencies([] if due is True else [start]):
            return run_if(due, timed)

    def substitutes(self, backward: BackwardPass | None = None) -> Substitutes:
        """Returns the gradients of a pass, or of the one that always runs, by those of factors."""
        old, new = self.of_factors, backward or self.always()
        return {
            before.ref(): after
            for old_source, new_source in zip(old.gradients, new.gradients, strict=True)
            for before, after in zip(old_source, new_source, strict=True)
            if before is not None
        }


def may_stand_in(blocks: Sequence[FisherBlock]) -> bool:
    """Returns True if factors can be made of stand-ins: if no block is one of a program's own.

    Such blocks may compute with gradients when they make factors.
    """
    package = FisherBlock.__module__.rpartition(".")[0]
    return all(type(block).__module__.startswith(f"{package}.") for block in blocks)
