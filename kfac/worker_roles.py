"""Roles of the workers of a cluster; defined in `kfac.scheduling`."""

from kfac.scheduling.worker_roles import (
    WORKER_STRATEGIES,
    WorkerRole,
)

__all__ = [
    "WORKER_STRATEGIES",
    "WorkerRole",
]
