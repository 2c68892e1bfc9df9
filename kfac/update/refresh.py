"""Refresh policies: when averages are folded and inverses refreshed, relative to the steps.

A policy is asked by the step, in each graph, and answers with a value. It calls nobody: the step
does what is due. Here are the answers, the interface of policies, and those of optimizers whose
steps do neither, because their users or threads do. The others have a file each:
`kfac.update.periodic_refresh` and `cluster_refresh`.
"""

import abc
import typing
from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Scalar, Tensor, Variable
from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.state import Change


class Due(NamedTuple):
    """Parts of a run that are due: each a bool [], or a Python bool where it never differs.

    Attributes:
      step: True to make a step. If it is false the run changes no weights and counts no step.
      averages: True to fold the batch into the averages; a Python False builds nothing, nor does
        the run then refresh inverses.
      state: Changes of the policy's variables, to be made after the step.
      summaries_wait: True if summaries come after all that the run has refreshed; false if another
        thread writes them, which must not make the step, too.
    """

    step: Tensor | bool = True
    averages: Tensor | bool = False
    state: Sequence[Change] = ()
    summaries_wait: bool = True


class InversesDue(NamedTuple):
    """Inverses that are due in a run.

    Attributes:
      due: bool [], or a Python bool; with shares bool [shares].
      shares: Numbers of the factors that are refreshed together; none means all at once.
      delay: Steps from the averages that inverses are computed from to the first use of these
        inverses. 0 means that the step uses the inverses of its own averages.
    """

    due: Tensor | bool
    shares: Sequence[Sequence[int]] = ()
    delay: int = 0


class RefreshPolicy(abc.ABC):
    """A rule for the times at which the curvature is updated, and its settings."""

    @property
    @abc.abstractmethod
    def from_identity(self) -> bool:
        """True if a block that has no inverse yet counts as a damped identity matrix.

        If it is false, products with its inverse are zero.
        """

    @property
    def variables(self) -> list[Variable]:
        """State of the policy. Empty before it is made."""
        return []

    def decay_per_update(self, decay: Scalar) -> Scalar:
        """Returns the weight of the past per update of averages, given that per step."""
        return decay

    @abc.abstractmethod
    def due(self, step: Tensor) -> Due:
        """Returns the parts of a run that are due after `step` steps, int64 []."""

    def inverses_due(
        self,
        step: Tensor,
        makes_step: Tensor | bool,
        blocks: Sequence[FisherBlock],
        factors: Sequence[FisherFactor],
    ) -> InversesDue:
        """Returns the inverses that are due; asked only if averages are ever due.

        Args:
          step: Number of steps so far, int64 [].
          makes_step: As `due` has told. Without a step there are no inverses to refresh.
          blocks: All blocks.
          factors: All factors, by whose numbers shares are given.
        """
        del step, makes_step, blocks, factors
        return InversesDue(False)


@typing.final
class NeverDue(RefreshPolicy):
    """Nothing but the step is ever due: users, or threads, update the curvature."""

    from_identity = True

    def due(self, step: Tensor) -> Due:
        """Returns a step with the inverses as they are."""
        del step
        return Due()


BY_CALLER = NeverDue()
"""The policy of an optimizer whose user updates the curvature."""
