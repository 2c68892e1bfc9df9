"""Process of the cluster that `benchmarks.scaling.cluster_points` measures.

Reads one JSON object per line and writes one per line. A parameter server reads nothing. Both end
at the end of their input, so none outlives the measuring program.

    python -m benchmarks.scaling.cluster_worker CLUSTER_AS_JSON worker 0
"""

import contextlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

import kfac
import replicate
from benchmarks.scaling.chains import RATE, batch_of, loss_of
from benchmarks.scaling.cluster_cases import KFAC_MODES, Case

v1 = tf.compat.v1

_RUNS_AT = 3
"""Steps before a worker reports "running"."""
_LEAST_ENDS = 2


class Worker:
    """Graph and training loop of one worker in a case."""

    def __init__(self, case: Case, task: int, target: str) -> None:
        """Builds the graph of a worker without contacting the servers. Task 0 is the chief."""
        self._case, self._task, self._target = case, task, target
        self._device = f"/job:worker/task:{task}"
        place = self._device
        if case.is_exchanged:
            place = v1.train.replica_device_setter(ps_tasks=1, worker_device=self._device)
        self._graph = tf.Graph()
        with self._graph.as_default(), self._graph.container(case.name), v1.device(place):
            self._step = v1.train.get_or_create_global_step()
            self._build()

    def run(self, send: Callable[[Mapping[str, Any]], None], orders: "Orders") -> dict[str, Any]:
        """Runs steps until told to stop or until the chief ends.

        Args:
          send: Sends messages: "session" once there is a session, "running" after some steps.
          orders: Orders of the measuring program.

        Returns:
          "steps" in the measured window, and "seconds" from the first to the last of them.
        """
        ends = list(self.steps(send, orders))
        orders.stop.wait()
        first, last = orders.window
        inside = [end for end in ends if first <= end <= last]
        if len(inside) < _LEAST_ENDS:
            return {"steps": 0, "seconds": last - first}
        return {"steps": len(inside) - 1, "seconds": inside[-1] - inside[0]}

    def steps(self, send: Callable[[Mapping[str, Any]], None], orders: "Orders") -> Iterator[float]:
        """Runs the steps of `run` and yields the end of each by the monotonic clock."""
        waits = self._case.waits and self._task < self._case.gradients
        can_stop = self._task == 0 or not waits
        with self._session() as session:
            send({"session": True})
            for step in itertools.count(1):
                if session.should_stop() or (can_stop and orders.stop.is_set()):
                    break
                session.run(self._train_op)
                yield time.monotonic()
                if step == _RUNS_AT:
                    send({"running": True})

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        config = v1.ConfigProto(device_filters=["/job:ps", self._device])
        is_chief = self._task == 0 or not self._case.is_exchanged
        kind = v1.train.ChiefSessionCreator if is_chief else v1.train.WorkerSessionCreator
        with self._graph.as_default():
            creator = kind(v1.train.Scaffold(), self._target, config)
            with v1.train.MonitoredSession(creator, self._hooks, 1) as session:
                yield session

    def _build(self) -> None:
        case = self._case
        getter: Any = None
        if case.mode == "averaging":
            getter = replicate.ModelAverageCustomGetter(self._device)
        layers = kfac.LayerCollection() if case.is_kfac else None
        with v1.variable_scope("", custom_getter=getter):
            loss = loss_of(tf.constant(batch_of(case.shape)), case.shape, layers)
        self._hooks: Sequence[Any] = []
        optimizer: Any = v1.train.GradientDescentOptimizer(RATE)
        if case.mode == "synchronous":
            optimizer = v1.train.SyncReplicasOptimizer(optimizer, case.workers)
        elif case.mode == "averaging":
            optimizer = replicate.ModelAverageOptimizer(
                optimizer, case.workers, self._task == 0, getter, case.interval
            )
        elif case.mode in KFAC_MODES:
            role = kfac.WorkerRole(case.mode, case.workers, self._task)
            optimizer = kfac.ClusterKfacOpt(role, **_kfac_settings(case, layers))
        elif case.mode == "local kfac":
            optimizer = kfac.PeriodicInvCovUpdateKfacOpt(**_kfac_settings(case, layers))
        self._train_op = optimizer.minimize(loss, self._step)
        if case.mode == "averaging" or self._task >= case.gradients:
            self._hooks = [optimizer.make_session_run_hook()]
        elif case.waits:
            sync = optimizer.sync_replicas if case.is_kfac else optimizer
            self._hooks = [replicate.SyncReplicasHook(sync, self._task == 0, num_tokens=0)]


class Orders:
    """Orders of the measuring program: cases, and the measured window of each."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.stop = threading.Event()
        self.window = (0.0, 0.0)

    def cases(self) -> Iterator[Case]:
        """Yields the cases. While one runs, a thread waits for the order to stop."""
        for line in self._lines:
            self.stop.clear()
            listener = threading.Thread(target=self._listen, daemon=True)
            listener.start()
            yield Case(**json.loads(line))
            listener.join()

    def _listen(self) -> None:
        line = next(self._lines, "")
        if line:
            self.window = tuple(json.loads(line))
        self.stop.set()


def _kfac_settings(case: Case, layers: kfac.LayerCollection | None) -> dict[str, Any]:
    return {
        "layer_collection": layers,
        "learning_rate": RATE,
        "damping": 0.1,
        "momentum": None,
        "invert_every": case.interval,
    }


def _send(message: Mapping[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def main(arguments: Sequence[str]) -> None:
    """Runs a server until the input ends. A worker also runs the cases that it reads.

    The arguments are the cluster as JSON, the job's name, and the task's index.
    """
    cluster, job, task = json.loads(arguments[0]), arguments[1], int(arguments[2])
    config = v1.ConfigProto(intra_op_parallelism_threads=1)
    if job == "worker":
        config.inter_op_parallelism_threads = 1
    server = v1.train.Server(cluster, job, task, config=config)
    _send({"serves": True})
    orders = Orders(iter(sys.stdin.readline, ""))
    if job == "ps":
        sys.stdin.read()
        return
    for case in orders.cases():
        _send(Worker(case, task, server.target).run(_send, orders))


if __name__ == "__main__":
    main(sys.argv[1:])
