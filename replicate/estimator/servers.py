"""Servers: this process as a task of a cluster, and how the tasks tell each other of the end.

Owns TensorFlow's server of this process, the wait for the parameter servers at the start, and a
small queue on each of them by which it learns that all training is done, so that it can leave.
Who trains and how is decided in `training.py`. `train_and_evaluate` calls it.

TensorFlow's servers know no passwords and listen on all network interfaces, whatever address the
cluster gives: whoever reaches the port can run code. A cluster belongs on a private network.
"""

import contextlib
import socket
import time
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.estimator.cluster import TaskType
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

POLL_SECS = 0.5
"""Seconds between two looks at something that another process does."""

LEAVE_SECS = 60
"""How long a parameter server waits for other workers once the chief is done."""

_TELL_SECS = 10
_CHIEF = 0


class ClusterError(RuntimeError):
    """A process of the cluster cannot be reached, or cannot start its server."""


def start_server(config: RunConfig) -> v1.train.Server:
    """Starts the server of this process.

    Raises:
      ClusterError: Its port is in use.
    """
    task, index = config.task_type, config.task_id
    address = config.cluster.jobs[task][index]
    port = int(address.rpartition(":")[2])
    if not _is_free(port):
        raise ClusterError(
            f"Cannot start the server of {task} {index}: port {port}, given for it in TF_CONFIG as "
            f"{address!r}, is in use. End the process that holds it, or choose another port."
        )
    log.warning(
        "The server of %s %d listens on port %d of all interfaces, without any authentication: "
        "keep the port closed to everybody else.",
        task,
        index,
        port,
    )
    return v1.train.Server(
        config.cluster_spec,
        job_name=task,
        task_index=index,
        protocol=config.protocol,
        config=config.session_config,
    )


def wait_for_parameter_servers(config: RunConfig) -> None:
    """Returns when every parameter server of the cluster accepts connections.

    Raises:
      ClusterError: One of them does not within `session_creation_timeout_secs`.
    """
    deadline = time.monotonic() + config.session_creation_timeout_secs
    for index, address in enumerate(config.cluster.jobs.get(TaskType.PS, ())):
        while not _accepts(address):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{config.task_type} {config.task_id} has waited "
                    f"{config.session_creation_timeout_secs:g} seconds for ps {index} at "
                    f"{address!r}, which accepts no connection. Start it, or correct its address "
                    "in TF_CONFIG."
                )
            time.sleep(POLL_SECS)


def tell_parameter_servers(target: str, config: RunConfig) -> None:
    """Tells the parameter servers that this process is done; one that has left is not missed."""
    for index in range(config.num_ps_replicas):
        with tf.Graph().as_default():
            done = _done_queue(index, config).enqueue(config.global_id_in_cluster)
            options = _options(config, index, f"/job:{config.task_type}/task:{config.task_id}")
            options.operation_timeout_in_ms = _TELL_SECS * 1000
            with contextlib.suppress(tf.errors.OpError), v1.Session(target, config=options) as it:
                it.run(done)


def serve_until_done(target: str, config: RunConfig) -> None:
    """Keeps a parameter server running until all who train are done.

    It leaves some time after the chief is done even if another never is.

    Args:
      target: Of the server of this process.
      config: Of this process.
    """
    with tf.Graph().as_default():
        queue = _done_queue(config.task_id, config)
        size, taken = queue.size(), queue.dequeue()
        with v1.Session(target, config=_options(config, config.task_id)) as session:
            _wait_for_all(session, size, taken, config.num_worker_replicas)


def _wait_for_all(session: v1.Session, size: Tensor, taken: Tensor, expected: int) -> None:
    done: set[int] = set()
    deadline = float("inf")
    while len(done) < expected and time.monotonic() < deadline:
        if not session.run(size):
            time.sleep(POLL_SECS)
            continue
        done.add(int(session.run(taken)))
        if _CHIEF in done and deadline == float("inf"):
            deadline = time.monotonic() + LEAVE_SECS


def _done_queue(index: int, config: RunConfig) -> Any:
    """The queue on a parameter server that takes the number of each process that is done."""
    with v1.device(f"/job:{TaskType.PS}/task:{index}"):
        return v1.FIFOQueue(
            10 * config.num_worker_replicas, tf.int32, shapes=(), shared_name=f"all_done/{index}"
        )


def _options(config: RunConfig, index: int, *devices: str) -> Any:
    """Session options that need no other process than one parameter server."""
    options = v1.ConfigProto()
    if config.session_config is not None:
        options.CopyFrom(config.session_config)
    del options.device_filters[:]
    options.device_filters.extend([f"/job:{TaskType.PS}/task:{index}", *devices])
    return options


def _is_free(port: int) -> bool:
    """Whether a server could listen on a port."""
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True


def _accepts(address: str) -> bool:
    """Whether something listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except OSError:
        return False
    return True
