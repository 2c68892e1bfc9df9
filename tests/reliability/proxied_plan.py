"""A plan of a cluster in which every task reaches every other one through a proxy of its own.

A task's TF_CONFIG has the task's real address, at which its server listens, and the addresses of
proxies in place of all others.
"""

import json

PROGRAM = """
import os, runpy, sys
from replicate.estimator.cluster import meeting
compare = meeting._difference
def without_addresses(arrived, names):
    return compare({rank: {**each, "cluster": None} for rank, each in arrived.items()}, names)
meeting._difference = without_addresses
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the program of its arguments in workers that know each other by addresses of proxies.

Each has other ones, which workers refuse otherwise.
"""


class ProxiedPlan:
    """A `ClusterPlan` with a link from each task to each other task that has a server."""

    def __init__(self, plan, proxies):
        self._plan, self._proxies = plan, proxies
        self.tasks = plan.tasks
        self._links = {
            (str(client), str(server)): proxies.add(server.address)
            for client in self._servers
            for server in self._servers
            if client is not server
        }

    @property
    def _servers(self):
        return [task for task in self.tasks if task.address is not None]

    def tf_config(self, task):
        """Returns the value of TF_CONFIG for a task."""
        cluster = {}
        for other in self._servers:
            link = self._links.get((str(task), str(other)))
            address = other.address if link is None else link.address
            cluster.setdefault(other.job, []).append(address)
        return json.dumps({"cluster": cluster, "task": {"type": task.job, "index": task.index}})

    def regrouped(self, members):
        """Returns the plan of a new group, whose links have no faults."""
        return ProxiedPlan(self._plan.regrouped(members), self._proxies)

    def cut(self, task, condition):
        """Gives all links of a task a condition."""
        for pair, link in self._links.items():
            if task in pair:
                link.condition = condition

    def between(self, *tasks):
        """Returns the links between tasks, in both directions."""
        return [link for pair, link in self._links.items() if set(pair) <= set(tasks)]
