"""The plan of a cluster: its tasks, their addresses, and the TF_CONFIG of each.

Owns the choice of ports. Without a chief of its own, the first worker is the chief: a cluster needs
somebody who writes the checkpoints. It starts nothing; `supervisor.py` does.
"""

import contextlib
import dataclasses
import json
import random
import socket
from collections.abc import Iterable

_PORTS = range(20_000, 32_000)  # Below those that Linux gives to outgoing connections.


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a cluster. Its `str` is its name, such as "worker 0".

    Attributes:
      job: "chief", "worker", "ps" or "evaluator".
      index: Its number in its job, ≥ 0.
      address: Where its server will listen, "host:port"; None for the evaluator, which has none.
    """

    job: str
    index: int
    address: str | None

    def __str__(self) -> str:
        return f"{self.job} {self.index}"


@dataclasses.dataclass(frozen=True)
class ClusterPlan:
    """The tasks of a cluster.

    Attributes:
      tasks: The chief first, then workers, parameter servers and the evaluator.
    """

    tasks: tuple[Task, ...]

    def tf_config(self, task: Task) -> str:
        """Returns what the environment variable TF_CONFIG of a task must be."""
        cluster: dict[str, list[str]] = {}
        for each in self.tasks:
            if each.address is not None:
                cluster.setdefault(each.job, []).append(each.address)
        return json.dumps(
            {"cluster": cluster, "task": {"type": task.job, "index": task.index}},
        )


def cluster_plan(
    workers: int, ps: int, *, chief: bool = False, evaluator: bool = False, host: str = "127.0.0.1"
) -> ClusterPlan:
    """Plans a cluster on free ports of this machine.

    Args:
      workers: Processes that train, ≥ 1. The first of them is the chief unless there is one of its
        own: 2 workers are "chief 0" and "worker 0".
      ps: Parameter servers, ≥ 0.
      chief: Whether a chief trains beside the workers.
      evaluator: Whether there is an evaluator.
      host: Name or address of this machine, as the tasks reach each other.

    Raises:
      ValueError: A number is out of range.
    """
    if workers < 1 or ps < 0:
        raise ValueError(
            f"Cannot plan a cluster of {workers} workers and {ps} parameter servers: it needs at "
            "least 1 worker, and no fewer than 0 parameter servers. Correct the numbers."
        )
    jobs = ["chief", *["worker"] * (workers if chief else workers - 1), *["ps"] * ps]
    ports = free_ports(len(jobs))
    tasks = [
        Task(job, index - jobs.index(job), _address(host, port))
        for index, (job, port) in enumerate(zip(jobs, ports, strict=True))
    ]
    return ClusterPlan((*tasks, *([Task("evaluator", 0, None)] if evaluator else [])))


def free_ports(count: int) -> list[int]:
    """Returns that many different ports of this machine on which nothing listens.

    Raises:
      OSError: There are not that many.
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
        raise OSError(f"Only {len(found)} of the {count} ports are free that a cluster needs.")
    return found


def _shuffled(ports: Iterable[int]) -> list[int]:
    """The ports in another order each time, so that two clusters seldom want the same."""
    shuffled = list(ports)
    random.SystemRandom().shuffle(shuffled)
    return shuffled


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
