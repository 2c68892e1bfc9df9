"""Workers without parameter servers: their group, the server of this process, and lost peers.

Owns the one TensorFlow server that a process has for its collectives. TensorFlow cannot stop a
server, and a server whose collectives have failed stays unusable. So a process that has lost a peer
ends with the exit code after which schedulers start it again; with `AllReduce.min_workers`, after
the newest step was saved (`hooks/hand_over.py`).
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.settings import AllReduce
from replicate.all_reduce.step import END_SCOPE
from replicate.errors import ClusterError
from replicate.estimator.cluster.peers import LOST, loss_of
from replicate.estimator.cluster.servers import absent_tasks, start_server
from replicate.estimator.run_config import RunConfig
from replicate.roles import TRAINERS

v1 = tf.compat.v1

KEYS_PER_CALL = 1_000_000
"""Number of keys of collectives that one training call of a process may use."""

_MOST_CALLS = 2000
"""Calls after which keys come again: they must be below 2³¹."""

LOOK_SECS = 10.0
"""Seconds in which the processes are asked, after a step has failed, which of them is lost."""


@dataclasses.dataclass
class _OwnServer:
    """Server of this process, which lives as long; the training calls that have used it."""

    server: v1.train.Server
    calls: int = 0


_SERVERS: dict[str, _OwnServer] = {}
"""Servers of this process by their addresses: what TensorFlow keeps for its life."""


def join_group(config: RunConfig) -> tuple[WorkerGroup, int] | None:
    """Returns the group in which this process trains, and the number of its training call.

    The server of this process is started if it does not run yet.

    Returns:
      None if the process sums with no other.

    Raises:
      ClusterError: The port of the server is in use.
    """
    if config.all_reduce is None:
        return None
    own = _own_server(config)
    own.calls += 1
    first_key = own.calls % _MOST_CALLS * KEYS_PER_CALL
    return _group(config, config.all_reduce, first_key), own.calls


def evaluating_group(config: RunConfig) -> WorkerGroup | None:
    """Returns the group with which this process evaluates; None if it evaluates by itself.

    The server of this process is started if it does not run yet.

    Raises:
      ClusterError: The port of the server is in use.
    """
    if config.all_reduce is None or not config.all_reduce.evaluates:
        return None
    _own_server(config)
    return _group(config, config.all_reduce)


def _own_server(config: RunConfig) -> _OwnServer:
    own = _SERVERS.get(config.master)
    if own is None:
        own = _SERVERS[config.master] = _OwnServer(start_server(config))
    return own


def _group(config: RunConfig, settings: AllReduce, first_key: int = 0) -> WorkerGroup:
    return WorkerGroup(worker_names(config), config.global_id_in_cluster or 0, settings, first_key)


def worker_names(config: RunConfig) -> list[str]:
    """Returns the workers with their addresses by rank, such as "chief 0 at 'a:2222'"."""
    return [
        f"{job} {index} at {address!r}"
        for job in TRAINERS
        for index, address in enumerate(config.cluster.jobs.get(job, ()))
    ]


@contextlib.contextmanager
def lost_workers_named(
    config: RunConfig,
    lost: Callable[[], list[str]] = list,
    known: Callable[[], ClusterError | None] = lambda: None,
) -> Iterator[None]:
    """Raises the failure of a collective as an error that names the lost workers.

    `lost` returns workers that are known to be lost, `known` the error if the cause is known.

    Raises:
      ClusterError: A collective has failed inside the context.
      ValueError: The input of this worker has ended and cannot be continued by empty batches.
    """
    if config.all_reduce is None:
        yield
        return
    try:
        yield
    except tf.errors.OutOfRangeError as error:
        ends_alone = config.all_reduce.every is not None
        if ends_alone or END_SCOPE in f"{error.message} {getattr(error.op, 'name', '')}":
            raise
        raise ValueError(
            f"The input of {config.task_type} {config.task_id} has ended, and the other workers "
            "wait for it. With AllReduce, input_fn must return a tf.data.Dataset with at least one "
            "batch for each worker, or an input that never ends."
        ) from error
    except tf.errors.OpError as error:
        if not _is_loss(error):
            raise
        raise known() or ClusterError(_loss(config, error, lost)) from error


def _is_loss(error: tf.errors.OpError) -> bool:
    is_collective = str(getattr(error.op, "type", "")).startswith("Collective")
    return isinstance(error, LOST) or is_collective or "Collective" in error.message


def _loss(config: RunConfig, error: tf.errors.OpError, lost: Callable[[], list[str]]) -> str:
    """Returns the text about a lost worker. Asks until one is found to be absent."""
    own = f"{config.task_type} {config.task_id}"
    deadline = time.monotonic() + LOOK_SECS
    while not (absent := lost() or absent_tasks(config, TRAINERS)) and time.monotonic() < deadline:
        time.sleep(0.2)
    if absent:
        return loss_of(config, absent)
    limit = config.all_reduce.timeout_secs if config.all_reduce else 0
    return (
        f"{own} ends because a step was not completed ({type(error).__name__}). All workers "
        f"answer: one of {', '.join(worker_names(config))} was started again, has failed, or took "
        f"longer than timeout_secs={limit:g} for a step. Start all workers again; training "
        "continues from the newest checkpoint."
    )
