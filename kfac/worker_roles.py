"""Roles of workers in a cluster: gradients, statistics, averages, inverses.

Nothing but choices, which every worker makes for itself and all make alike; no ops are made here.
Three strategies:

* "chief_worker": all workers compute gradients; the chief alone updates averages, from its own
  batches, and inverses.
* "dedicated_workers": the first 60 % of the workers compute gradients, the next 20 % update
  averages and the last 20 % inverses, all at their own pace. Where there is but one worker left for
  both it does both.
* "shared": all workers compute gradients and add their batch to the statistics, and each computes
  the inverses that it owns.

Called by `kfac.cluster`, and by training programs that must know their role.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3.
  Osawa et al. (2019), "Large-scale distributed second-order optimization using Kronecker-factored
  approximate curvature for deep convolutional neural networks", §3: inverses by layer.
"""

import dataclasses
from collections.abc import Sequence

from kfac.arguments import check_choice, check_period
from kfac.placement import assign_by_cost

__all__ = ["WORKER_STRATEGIES", "WorkerRole"]

WORKER_STRATEGIES = ("chief_worker", "dedicated_workers", "shared")
"""Values of the argument `strategy` of `WorkerRole`."""

_LEAST_DEDICATED = 3


@dataclasses.dataclass(frozen=True)
class WorkerRole:
    """The tasks of one worker in a cluster.

    Attributes:
      strategy: One of `WORKER_STRATEGIES`.
      num_workers: Workers, the chief among them; neither parameter servers nor evaluators.
      task_index: Which of them this is, from 0, the chief.
    """

    strategy: str
    num_workers: int
    task_index: int

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          ValueError: The strategy is unknown, there are too few workers for it, or there is no
            worker of that index.
        """
        check_choice("strategy", self.strategy, WORKER_STRATEGIES)
        check_period("num_workers", self.num_workers, "workers")
        if self._is_dedicated and self.num_workers < _LEAST_DEDICATED:
            raise ValueError(
                f"Cannot set up K-FAC: strategy='dedicated_workers' with num_workers="
                f"{self.num_workers!r}. It needs at least {_LEAST_DEDICATED} workers, the chief "
                "among them: start more, or choose 'shared' or 'chief_worker'."
            )
        if isinstance(self.task_index, bool) or self.task_index not in range(self.num_workers):
            raise ValueError(
                f"Cannot set up K-FAC: task_index={self.task_index!r} with num_workers="
                f"{self.num_workers!r}. It must be an int from 0, the chief, to "
                f"{self.num_workers - 1}: count the chief and the workers, not the parameter "
                "servers."
            )

    @property
    def name(self) -> str:
        """The work of this worker in words."""
        work = {
            "gradients": self.computes_gradients,
            "covariances": self.adds_statistics,
            "inverses": self.computes_inverses,
        }
        return ", ".join(name for name, is_done in work.items() if is_done)

    @property
    def is_chief(self) -> bool:
        """True for the chief, which applies the gradients of all workers."""
        return self.task_index == 0

    @property
    def computes_gradients(self) -> bool:
        """True if the gradients of this worker count."""
        return not self._is_dedicated or 5 * self.task_index < 3 * self.num_workers

    @property
    def replicas_to_aggregate(self) -> int:
        """The number of workers that compute gradients, ⌈0.6 n⌉ of n with dedicated workers."""
        return -(-3 * self.num_workers // 5) if self._is_dedicated else self.num_workers

    @property
    def adds_statistics(self) -> bool:
        """True if the statistics of this worker's batches count."""
        if self._is_dedicated:
            is_alone = self.replicas_to_aggregate == self.num_workers - 1
            return not self.computes_gradients and (is_alone or not self.computes_inverses)
        return self.strategy == "shared" or self.is_chief

    @property
    def folds_statistics(self) -> bool:
        """True for the one worker that folds the added statistics into the averages."""
        first = self.replicas_to_aggregate if self._is_dedicated else 0
        return self.task_index == first

    @property
    def computes_inverses(self) -> bool:
        """True if this worker computes inverses."""
        if self._is_dedicated:
            is_last = self.task_index == self.num_workers - 1
            return is_last or 5 * self.task_index >= 4 * self.num_workers
        return self.strategy == "shared" or self.is_chief

    def owned(self, costs: Sequence[float]) -> list[int]:
        """Returns the numbers of the factors whose inverses this worker computes.

        Args:
          costs: Costs of each factor's inverses, in any unit, the same on every worker.
        """
        if not self.computes_inverses:
            return []
        if self.strategy != "shared":
            return list(range(len(costs)))
        owners = assign_by_cost(costs, range(self.num_workers))
        return [index for index, owner in enumerate(owners) if owner == self.task_index]

    @property
    def _is_dedicated(self) -> bool:
        return self.strategy == "dedicated_workers"
