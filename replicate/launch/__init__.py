"""The launcher: runs a cluster of processes on one machine, for development.

`python -m replicate.launch` is its command line, in `__main__.py`. `cluster_plan` makes the list of
tasks and the TF_CONFIG of each. `Supervisor` runs them to the end. `TaskLogs` keeps their output in
files, and `Console` shows it. A `Backend` starts the processes: `LocalBackend` on this machine, one
of your own elsewhere. Nothing here imports TensorFlow.
"""

from replicate.launch.backend import Backend, ProcessHandle, ProcessPlan
from replicate.launch.console import Console, Display
from replicate.launch.local_backend import LocalBackend
from replicate.launch.plan import ClusterPlan, Task, cluster_plan
from replicate.launch.supervisor import Supervisor
from replicate.launch.task_logs import TaskLogs

__all__ = [
    "Backend",
    "ClusterPlan",
    "Console",
    "Display",
    "LocalBackend",
    "ProcessHandle",
    "ProcessPlan",
    "Supervisor",
    "Task",
    "TaskLogs",
    "cluster_plan",
]
