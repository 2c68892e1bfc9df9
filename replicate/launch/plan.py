"""The plan of a cluster: its tasks, their addresses, and the TF_CONFIG of each.

A cluster needs a chief to write checkpoints: without an extra chief, the first worker becomes the
chief. Ports are chosen here; `supervisor.py` starts the tasks.
"""

import contextlib
import dataclasses
import json
import random
import socket
from collections.abc import Iterable, Sequence

from replicate.roles import Role, TaskType, role_of

_PORTS = range(20_000, 32_000)  # Below those that Linux gives to outgoing connections.


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a cluster. `str(task)` is its name, such as "worker 0".

    Attributes:
      job: One of `TaskType`.
      index: Its number within its job, ≥ 0.
      address: Address of its server, "host:port"; None for the evaluator, which has no server.
    """

    job: str
    index: int
    address: str | None

    def __str__(self) -> str:
        return f"{self.job} {self.index}"

    @property
    def role(self) -> Role:
        """The work of the process."""
        return role_of(self.job)


@dataclasses.dataclass(frozen=True)
class ClusterPlan:
    """The tasks of a cluster.

    Attributes:
      tasks: The chief first, then workers, parameter servers, and the evaluator.
    """

    tasks: tuple[Task, ...]

    def tf_config(self, task: Task) -> str:
        """Returns the value of the environment variable TF_CONFIG for a task."""
        cluster: dict[str, list[str]] = {}
        for each in self.tasks:
            if each.address is not None:
                cluster.setdefault(each.job, []).append(each.address)
        return json.dumps(
            {"cluster": cluster, "task": {"type": task.job, "index": task.index}},
        )

    def regrouped(self, members: Sequence[Task]) -> "ClusterPlan":
        """Returns the plan of a new group of workers, which are renumbered, on free ports.

        Args:
          members: Some of the tasks of this plan, by their ranks in the new one.

        Raises:
          OSError: Too few ports are free.
        """
        hosts = [str(each.address).rpartition(":")[0] for each in members]
        jobs = [TaskType.CHIEF, *[TaskType.WORKER] * (len(members) - 1)]
        trainers = [
            Task(job, max(rank - 1, 0), f"{host}:{port}")
            for rank, (job, host, port) in enumerate(
                zip(jobs, hosts, free_ports(len(jobs)), strict=True)
            )
        ]
        others = [each for each in self.tasks if not each.role.trains]
        return ClusterPlan((*trainers, *others))


def cluster_plan(
    workers: int, ps: int, *, chief: bool = False, evaluator: bool = False, host: str = "127.0.0.1"
) -> ClusterPlan:
    """Plans a cluster on free ports of this machine.

    Args:
      workers: Processes that train, ≥ 1. Without an extra chief the first of them is the chief: 2
        workers are "chief 0" and "worker 0".
      ps: Parameter servers, ≥ 0.
      chief: True adds a chief to the workers.
      evaluator: True adds an evaluator.
      host: Name or address at which the tasks reach this machine.

    Raises:
      ValueError: A number is out of range.
    """
    if workers < 1 or ps < 0:
        raise ValueError(
            f"Cannot plan a cluster of {workers} workers and {ps} parameter servers: it needs at "
            "least 1 worker, and no fewer than 0 parameter servers. Correct the numbers."
        )
    trainers = workers if chief else workers - 1
    jobs = [TaskType.CHIEF, *[TaskType.WORKER] * trainers, *[TaskType.PS] * ps]
    ports = free_ports(len(jobs))
    tasks = [
        Task(job, index - jobs.index(job), _address(host, port))
        for index, (job, port) in enumerate(zip(jobs, ports, strict=True))
    ]
    return ClusterPlan((*tasks, *([Task(TaskType.EVALUATOR, 0, None)] if evaluator else [])))


def free_ports(count: int) -> list[int]:
    """Returns different ports of this machine on which nothing listens.

    Raises:
      OSError: Fewer than `count` ports are free.
    """
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in _shuffled(_PORTS):
            if len(found) == count:
                break
            trial = held.enter_context(
                socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET)
            )
            with contextlib.suppress(OSError):
                trial.bind(("", port))
                found.append(port)
    if len(found) < count:
        raise OSError(
            f"Cannot plan a cluster here: only {len(found)} of the {count} ports are free that it "
            f"needs, from {_PORTS[0]} to {_PORTS[-1]}. End programs that listen on them."
        )
    return found


def _shuffled(ports: Iterable[int]) -> list[int]:
    """Returns the ports in random order, so that two clusters seldom try the same ones."""
    shuffled = list(ports)
    random.SystemRandom().shuffle(shuffled)
    return shuffled


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
