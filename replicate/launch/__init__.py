"""The launcher: runs a cluster of processes on one machine, for development.

`python -m replicate.launch` is its command line, in `__main__.py`. `cluster_plan` makes the list of
tasks and the TF_CONFIG of each. `Supervisor` runs them to the end, and `Console` shows their
output. A `Backend` starts the processes: `LocalBackend` on this machine, one of your own elsewhere.
Nothing here imports TensorFlow.
"""

from replicate.launch.backend import Backend, ProcessHandle, ProcessPlan
from replicate.launch.console import Console, Display
from replicate.launch.local_backend import LocalBackend
from replicate.launch.plan import ClusterPlan, Task, cluster_plan
from replicate.launch.supervisor import Supervisor

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
    "cluster_plan",
]
