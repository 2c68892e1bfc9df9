"""ClusterConfig: the processes of a cluster, and the task of this process.

Owns the reading and all checks of the environment variable TF_CONFIG. A wrong description gives one
clear error before anything is started. This module opens no connection; `cluster/servers.py` starts
the cluster. `RunConfig` holds the ClusterConfig.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate.errors import ClusterConfigError
from replicate.roles import CHIEFS, TASK_TYPES, TRAINERS, Role, TaskType, role_of

v1 = tf.compat.v1

_EXAMPLE = (
    '{"cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"], '
    '"ps": ["10.0.0.3:2222"]}, "task": {"type": "worker", "index": 0}}'
)
_STRINGS = ("model_dir", "session_master", "eval_session_master")
_NOT_TEXT = r"\x00\ud800-\udfff"
_ADDRESS = re.compile(
    rf"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]{_NOT_TEXT}]+):(?P<port>[0-9]{{1,5}})"
)
_JOBS = tuple(task_type for task_type in TASK_TYPES if task_type != TaskType.EVALUATOR)


@dataclasses.dataclass(frozen=True)
class ClusterConfig:
    """A cluster and the task of this process; without arguments, a single process.

    Attributes:
      jobs: Addresses, "host:port", of the tasks of each job, "" where the address is not known;
        empty for a process on its own.
      task_type: One of `TaskType`.
      task_id: Index of this task in its job.
      service: Free settings that TF_CONFIG may hold for the user.
      model_dir: The model directory that TF_CONFIG asks for, None if it asks for none.
      target: Address of a server that was started elsewhere and runs the training session; None for
        the server of this task. Devices and device filters are then those of the RunConfig alone.
      session_master: Address of the server that runs the training session, as TF_CONFIG gives it;
        None for the server of this task, or for no server where there is no cluster.
      eval_session_master: Address of the server that runs evaluations, as TF_CONFIG gives it, for
        an evaluator and for a process on its own; None for this process.
    """

    jobs: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict, hash=False)
    task_type: str = TaskType.WORKER
    task_id: int = 0
    service: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    model_dir: str | None = None
    target: str | None = None
    session_master: str | None = None
    eval_session_master: str | None = None

    @property
    def cluster_spec(self) -> v1.train.ClusterSpec:
        """The training cluster; empty for a process on its own and for the evaluator."""
        return v1.train.ClusterSpec({job: list(tasks) for job, tasks in self._training.items()})

    @property
    def is_chief(self) -> bool:
        """True if this process writes the checkpoints."""
        return self.role.saves

    @property
    def role(self) -> Role:
        """The work of this process."""
        return role_of(self.task_type, has_cluster=bool(self.jobs))

    @property
    def master(self) -> str:
        """Target of the training session: "" in this process, else an address with "grpc://"."""
        if self.target is not None:
            return self.target
        if self.session_master is not None and not self._is_evaluator:
            return self.session_master
        alone = sum(map(len, self._training.values())) <= 1
        return "" if alone else f"grpc://{self.jobs[self.task_type][self.task_id]}"

    @property
    def evaluation_master(self) -> str:
        """Target of an evaluation session: "" in this process, else an address."""
        takes_it = self._is_evaluator or not self.jobs
        return (self.eval_session_master or "") if takes_it else ""

    @property
    def num_ps_replicas(self) -> int:
        """Parameter servers of the training cluster."""
        return len(self._training.get(TaskType.PS, ()))

    @property
    def num_worker_replicas(self) -> int:
        """Processes that train, the chief included; 0 for the evaluator."""
        if not self.jobs:
            return 1
        return sum(len(self._training.get(job, ())) for job in TRAINERS)

    @property
    def global_id_in_cluster(self) -> int | None:
        """Number of this task, counted chief, workers, parameter servers; None for evaluators."""
        if self._is_evaluator:
            return None
        before = _JOBS[: _JOBS.index(self.task_type)]
        return sum(len(self.jobs.get(job, ())) for job in before) + self.task_id

    @property
    def _is_evaluator(self) -> bool:
        return self.task_type == TaskType.EVALUATOR

    @property
    def _training(self) -> Mapping[str, tuple[str, ...]]:
        """Jobs of the training cluster; none for an evaluator, which does not connect to it."""
        return {} if self._is_evaluator else self.jobs


def cluster_config_from_environment(*, first_worker_is_chief: bool = False) -> ClusterConfig:
    """Returns the cluster of the environment variable TF_CONFIG, if set, by `parse_cluster_config`.

    Raises:
      ClusterConfigError: TF_CONFIG is wrong.
    """
    text = os.environ.get("TF_CONFIG", "")
    return parse_cluster_config(text, first_worker_is_chief=first_worker_is_chief)


def parse_cluster_config(text: str, *, first_worker_is_chief: bool = False) -> ClusterConfig:
    """Returns the cluster that a TF_CONFIG describes.

    Args:
      text: JSON object with "cluster" and "task", and optionally "service", "model_dir",
        "session_master" and "eval_session_master". The index of the task may be a number or a
        string. An evaluator may be listed in the cluster, or only have its task. Without a cluster,
        the text stands for a process on its own, and its task, if there is one, is worker 0.
      first_worker_is_chief: True to take a cluster that lists workers only, as
        `tf.distribute.MultiWorkerMirroredStrategy` does: worker 0 then is chief 0, worker 1 is
        worker 0, and so on.

    Raises:
      ClusterConfigError: Anything in it is wrong or missing.
    """
    if not text.strip():
        return ClusterConfig()
    config = _parsed(text)
    cluster, task = _object(config, "cluster"), _object(config, "task")
    rest: dict[str, Any] = {"service": _object(config, "service") or None}
    rest.update((key, _string(config, key)) for key in _STRINGS)
    if not cluster:
        _check_task_alone(task)
        return ClusterConfig(**rest)
    if not task:
        raise _error('"task" is missing', "say which task of the cluster this process is")
    if first_worker_is_chief:
        cluster, task = _with_chief(cluster, task)
    jobs = _checked_jobs(cluster)
    task_type, task_id = _checked_task(task, jobs)
    _check_who_evaluates(jobs, task_type)
    jobs.pop(TaskType.EVALUATOR, None)
    return ClusterConfig(jobs, task_type, task_id, **rest)


def _with_chief(
    cluster: dict[str, Any], task: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a cluster whose first worker is the chief, if it has no chief, and the task in it."""
    workers = cluster.get(TaskType.WORKER)
    if any(job in cluster for job in CHIEFS) or not isinstance(workers, list) or not workers:
        return cluster, task
    cluster = {**cluster, TaskType.CHIEF: workers[:1], TaskType.WORKER: workers[1:]}
    index = _number(task.get("index"))
    if task.get("type") == TaskType.WORKER and index is not None:
        is_first = index == 0
        chief = {"type": TaskType.CHIEF, "index": 0}
        task = chief if is_first else {**task, "index": index - 1}
    return cluster, task


def _error(found: str, advice: str) -> ClusterConfigError:
    return ClusterConfigError(
        f"Cannot read the cluster from TF_CONFIG: {found}. Correct it: {advice}. A correct "
        f"TF_CONFIG is, for example: {_EXAMPLE}"
    )


def _parsed(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 80 else f"{text[:80]}..."
        raise _error(
            f"it is not JSON ({error}): {shown!r}", "look for a quote or a comma"
        ) from error
    if not isinstance(config, dict):
        raise _error(f"it must be a JSON object, got {_shown(config)}", "put it in braces")
    return config


def _object(config: dict[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    if value is not None and not isinstance(value, dict):
        raise _error(f'"{key}" must be an object, got {_shown(value)}', "put it in braces")
    return value or {}


def _string(config: dict[str, Any], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        advice = "give a path" if key == "model_dir" else 'give an address, "grpc://host:port"'
        raise _error(f'"{key}" must be a string, got {_shown(value)}', advice)
    if value and re.search(f"[{_NOT_TEXT}]", value):
        raise _error(
            f'"{key}" holds a character that no path or address has, in {_shown(value)}',
            "look for a NUL and for half of a character",
        )
    return value or None


def _check_task_alone(task: dict[str, Any]) -> None:
    """Raises ClusterConfigError if a task without a cluster is not worker 0."""
    task_type, index = task.get("type", TaskType.WORKER), _number(task.get("index", 0))
    if (task_type, index) != (TaskType.WORKER, 0):
        raise _error(
            f'"cluster" is missing or empty beside "task": {_shown(task)}',
            'list the jobs of the cluster; a process on its own is "worker" 0',
        )


def _checked_jobs(cluster: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    for job in cluster:
        if job not in TASK_TYPES:
            raise _error(f'"cluster" holds a job {_shown(job)}', f"the jobs are {list(TASK_TYPES)}")
    listed = [job for job in TASK_TYPES if job in cluster and cluster[job] != []]
    jobs = {job: _checked_tasks(job, cluster[job]) for job in listed}
    _check_one_chief(jobs)
    seen: dict[tuple[str, int], str] = {}
    for job, addresses in jobs.items():
        for index, address in enumerate(addresses):
            place, endpoint = f"{job} {index}", _endpoint(address)
            if endpoint in seen:
                raise _error(
                    f"{seen[endpoint]} and {place} have the same address {_shown(address)}",
                    "give every task its own port",
                )
            seen[endpoint] = place
    return jobs


def _endpoint(address: str) -> tuple[str, int]:
    """Returns host and port of an address, the same for all spellings of both."""
    host, _, port = address.rpartition(":")
    return host.lower(), int(port)


def _checked_tasks(job: str, addresses: Any) -> tuple[str, ...]:
    if not isinstance(addresses, list):
        raise _error(
            f'job "{job}" must be a list of addresses, got {_shown(addresses)}',
            "list one address per task, or leave the job out",
        )
    for index, address in enumerate(addresses):
        found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if found is None or not 0 < int(found["port"]) < 2**16:
            raise _error(
                f"{job} {index} has the address {_shown(address)}",
                'write it as "host:port" with a port from 1 to 65535',
            )
    return tuple(addresses)


def _check_one_chief(jobs: Mapping[str, tuple[str, ...]]) -> None:
    chiefs = [job for job in CHIEFS if job in jobs]
    if len(chiefs) == 2:
        raise _error(
            '"cluster" holds both "chief" and "master"', 'keep one of them, "chief" if you can'
        )
    if not chiefs:
        raise _error(f'"cluster" has no "chief", only {sorted(jobs)}', "add one task as chief")
    (job,) = chiefs
    if len(jobs[job]) > 1:
        raise _error(
            f'"{job}" has {len(jobs[job])} tasks: {_shown(jobs[job])}',
            'keep one and list the others as "worker"',
        )


def _checked_task(task: dict[str, Any], jobs: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    task_type, index = task.get("type"), _number(task.get("index"))
    if task_type not in TASK_TYPES:
        raise _error(
            f'the task type is {_shown(task_type)}, in "task": {_shown(task)}',
            f"the task types are {list(TASK_TYPES)}",
        )
    if task_type != TaskType.EVALUATOR and task_type not in jobs:
        raise _error(
            f'the task type {task_type!r} is not in "cluster", whose jobs are {sorted(jobs)}',
            "add the job or change the type",
        )
    if index is None:
        raise _error(f"the task index is {_shown(task.get('index'))}", "write a whole number")
    count = len(jobs.get(task_type, ()))  # 0 for an evaluator, which the cluster need not list.
    if index < 0 or 0 < count <= index:
        listed = f": {task_type!r} has {count} tasks" if count else ""
        raise _error(
            f"the task index {_shown(index)} is out of range{listed}",
            f"use 0 to {count - 1}" if count else "use 0 or more",
        )
    return str(task_type), index


def _check_who_evaluates(jobs: Mapping[str, tuple[str, ...]], task_type: str) -> None:
    """Raises ClusterConfigError if a cluster has a master, which evaluates, and an evaluator."""
    evaluator = TaskType.EVALUATOR
    if TaskType.MASTER in jobs and (evaluator in jobs or task_type == evaluator):
        raise _error(
            'there is an "evaluator" beside a "master", which evaluates itself',
            'name the master "chief", or leave the evaluator out',
        )


def _number(index: Any) -> int | None:
    """Returns the index of a task as an int; None if it is no number. Schedulers may write "0"."""
    if isinstance(index, str):
        try:
            return int(index)
        except ValueError:
            return None
    return index if type(index) is int else None


def _shown(value: Any) -> str:
    """Returns a value as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
