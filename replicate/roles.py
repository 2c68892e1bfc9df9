"""Roles: the work of each process of a training job, by its task.

Owns the one table of roles. `RunConfig` reads the task from TF_CONFIG, and `Estimator.train`,
`train_and_evaluate` and the launcher ask here what a process with that task does. This module
imports nothing, so that the launcher starts without TensorFlow.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import final


class TaskType:
    """Roles of the processes of a cluster.

    Attributes:
      MASTER: Old name of the chief; it evaluates as well.
      PS: Keeps variables.
      WORKER: Trains.
      CHIEF: Trains, and writes checkpoints and event files.
      EVALUATOR: Evaluates the checkpoints of the cluster; it is not part of the cluster.
    """

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"


@final
@dataclasses.dataclass(frozen=True)
class Role:
    """Work of one process.

    Attributes:
      trains: True if it makes training steps.
      saves: True if it writes the checkpoints; one process of a job does.
      evaluates: True if it evaluates checkpoints and exports models.
      keeps_variables: True if it keeps variables for the processes that train.
    """

    trains: bool = False
    saves: bool = False
    evaluates: bool = False
    keeps_variables: bool = False


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        TaskType.CHIEF: Role(trains=True, saves=True),
        TaskType.MASTER: Role(trains=True, saves=True, evaluates=True),
        TaskType.WORKER: Role(trains=True),
        TaskType.PS: Role(keeps_variables=True),
        TaskType.EVALUATOR: Role(evaluates=True),
    }
)
"""Role of each task type of a cluster, in the order in which a cluster counts its tasks."""

ALONE = Role(trains=True, saves=True, evaluates=True)
"""Role of a process on its own."""

TASK_TYPES = tuple(ROLES)
CHIEFS = tuple(task_type for task_type, role in ROLES.items() if role.saves)
"""Task types of which a cluster has one process, which writes the checkpoints."""

TRAINERS = tuple(task_type for task_type, role in ROLES.items() if role.trains)
"""Task types of the processes that train."""


def role_of(task_type: str, has_cluster: bool = True) -> Role:
    """Returns the role of a process.

    Args:
      task_type: One of `TaskType`, or a program's own name for its workers.
      has_cluster: False for a process whose TF_CONFIG names no cluster. It does everything, unless
        it is an evaluator or has been given a task all the same.
    """
    if not has_cluster and task_type == TaskType.WORKER:
        return ALONE
    return ROLES.get(task_type, ROLES[TaskType.WORKER])
