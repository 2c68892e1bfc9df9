"""DeploymentConfig: the number of clones, replicas and parameter servers, and their devices.

It turns counts into device strings and builds nothing. `create_clones` and `deploy` use it for
placement. Use it for your own input pipeline or evaluation, too.
"""

import dataclasses
import numbers
from collections.abc import Callable

from model_deploy._types import Device, Operation, VariablePlacement
from model_deploy.arguments import check_type
from model_deploy.devices import CPU, VARIABLE_PLACEMENTS, VariablePlacer
from model_deploy.tracebacks import methods_show_user_frames


@methods_show_user_frames
@dataclasses.dataclass(frozen=True)
class DeploymentConfig:
    """Clones in this process, replicas of this process, and parameter servers.

    Device strings name jobs only if there are parameter servers. They never name the task of a
    worker, since each worker's session runs on its own task.

    Attributes:
      num_clones: Copies of the model in this process, each on its own device.
      clone_on_cpu: True puts all clones on the CPU, for tests; False puts clone i on GPU i.
      replica_id: Number of this process among the replicas, from 0.
      num_replicas: Processes that train the same variables.
      num_ps_tasks: Parameter servers; 0 keeps variables on the CPU of this process.
      worker_job_name: Name of the workers' job.
      ps_job_name: Name of the parameter servers' job.
      variable_placement: Distribution of variables over parameter servers: "round_robin" takes
        the servers in turn, "by_bytes" takes the one that holds the fewest bytes so far.
      xla: True compiles the computation of each clone and its gradients with XLA.

    Raises:
      ValueError: A count or an id is out of range, several replicas have no parameter server, a
        required job name is empty, or the placement is unknown.
      TypeError: A count or an id is no int.
    """

    num_clones: int = 1
    clone_on_cpu: bool = False
    replica_id: int = 0
    num_replicas: int = 1
    num_ps_tasks: int = 0
    worker_job_name: str = "worker"
    ps_job_name: str = "ps"
    variable_placement: VariablePlacement = dataclasses.field(default="round_robin", kw_only=True)
    xla: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_counts()
        self._check_jobs()
        if self.variable_placement not in VARIABLE_PLACEMENTS:
            accepted = ", ".join(map(repr, VARIABLE_PLACEMENTS))
            raise _refused(
                f"variable_placement is {self.variable_placement!r}; accepted are {accepted}."
            )

    @property
    def worker_device(self) -> Device:
        """Job of the workers, or "" without parameter servers."""
        return f"/job:{self.worker_job_name}" if self.num_ps_tasks else ""

    @property
    def ps_device(self) -> Device:
        """Job of the parameter servers, or "" if there are none."""
        return f"/job:{self.ps_job_name}" if self.num_ps_tasks else ""

    def caching_device(self) -> Callable[[Operation], Device] | None:
        """Returns the argument `caching_device` of `v1.get_variable` and `v1.variable_scope`.

        Returns:
          With parameter servers, a function that caches a variable on the device of its reader;
          else None, which means no caching.
        """
        return _reader_device if self.num_ps_tasks else None

    def clone_device(self, clone_index: int) -> Device:
        """Returns the device that a clone computes on.

        Raises:
          ValueError: The index is not that of a clone.
        """
        self._check_clone(clone_index)
        kind = "CPU:0" if self.clone_on_cpu else f"GPU:{clone_index}"
        return f"{self.worker_device}/device:{kind}"

    def clone_scope(self, clone_index: int) -> str:
        """Returns the name scope of a clone: `clone_1`, or "" if there is only one clone.

        Raises:
          ValueError: The index is not that of a clone.
        """
        self._check_clone(clone_index)
        return f"clone_{clone_index}" if self.num_clones > 1 else ""

    def optimizer_device(self) -> Device:
        """Returns the device that sums the losses and holds the optimizer."""
        return self.worker_device + CPU

    def inputs_device(self) -> Device:
        """Returns the device of the input pipeline."""
        return self.worker_device + CPU

    def variables_device(self) -> Device | Callable[[Operation], Device]:
        """Returns the argument for `v1.device` that places variables.

        Returns:
          The CPU; or, with parameter servers, a function that puts each variable on one of them.
          The function ignores all other operations and variables that already have a device. Each
          call returns a new function, which starts with empty servers.
        """
        if not self.num_ps_tasks:
            return CPU
        place = self.variable_placer().on("")

        def place_unplaced(operation: Operation) -> Device:
            return operation.device or place(operation)

        return place_unplaced

    def variable_placer(self) -> VariablePlacer:
        """Returns a new placer of variables, which starts with empty devices."""
        parameters = [
            f"{self.ps_device}/task:{task}{CPU}" for task in range(self.num_ps_tasks)
        ] or [CPU]
        return VariablePlacer(parameters, self.variable_placement)

    def _check_counts(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            is_int = isinstance(value, numbers.Integral)
            check_type("make a DeploymentConfig", name, value, is_int, f"an int from {least} on")
            if value < least:
                raise _refused(f"{name} is {value}; it must be at least {least}.")
        if self.replica_id >= self.num_replicas:
            raise _refused(
                f"replica_id is {self.replica_id}, but there are {self.num_replicas} replicas "
                f"(num_replicas), numbered from 0."
            )
        if self.num_replicas > 1 and not self.num_ps_tasks:
            raise _refused(
                f"{self.num_replicas} replicas (num_replicas) have no parameter server to share "
                f"variables on: num_ps_tasks must be at least 1."
            )

    def _check_jobs(self) -> None:
        if not self.num_ps_tasks:
            return
        for name in ("worker_job_name", "ps_job_name"):
            if not getattr(self, name):
                raise _refused(
                    f"{name} is empty; with parameter servers (num_ps_tasks={self.num_ps_tasks}) "
                    f"both jobs need a name."
                )

    def _check_clone(self, clone_index: int) -> None:
        if not 0 <= clone_index < self.num_clones:
            raise ValueError(
                f"There is no clone {clone_index}: num_clones is {self.num_clones}, and clones are "
                f"numbered from 0."
            )


_LEAST = {"num_clones": 1, "replica_id": 0, "num_replicas": 1, "num_ps_tasks": 0}


def _reader_device(operation: Operation) -> Device:
    return operation.device


def _refused(reason: str) -> ValueError:
    return ValueError(f"Cannot make a DeploymentConfig: {reason}")
