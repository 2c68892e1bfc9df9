"""The launcher: a cluster of processes on this machine, for development.

`python -m replicate.launch` is its command line, in `__main__.py`. `cluster_plan` decides which
tasks there are and what each is told, `Supervisor` runs them to the end, `Console` shows what they
print. Nothing here imports TensorFlow.
"""

from replicate.launch.console import Console, Display
from replicate.launch.plan import ClusterPlan, Task, cluster_plan
from replicate.launch.supervisor import Supervisor

__all__ = ["ClusterPlan", "Console", "Display", "Supervisor", "Task", "cluster_plan"]
