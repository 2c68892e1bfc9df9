"""Peers: the other workers of a cluster without parameter servers, and the loss of one of them.

Owns one idle connection to the server of each peer. The system closes it at once when the peer's
process ends, whatever ended it, and a process that was started again does not open it anew. So a
loss is noticed, and named, even if TensorFlow waits for the peer.
"""

import socket
import threading
from collections.abc import Sequence
from typing import final

import tensorflow as tf

from replicate.addresses import connect
from replicate.errors import CutOffError
from replicate.estimator.cluster.servers import HTTP2_GREETING
from replicate.estimator.run_config import RunConfig
from replicate.roles import CHIEFS, TRAINERS

CONNECT_SECS = 10.0
"""Seconds in which a peer that has just been there must answer."""

LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
)
"""Errors of a collective whose other end is gone."""

_SETTINGS_TAKEN = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])
"""Answer to the server's own greeting: without it, gRPC closes the connection after a minute."""


@final
class Peers:
    """Connections to the other workers."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._lines: dict[socket.socket, str] = {}
        self._lost: list[str] = []

    def connect(self) -> None:
        """Connects to all peers, whose servers run."""
        config = self._config
        own = (config.task_type, config.task_id)
        with self._lock:
            for job in TRAINERS:
                for index, address in enumerate(config.cluster.jobs.get(job, ())):
                    if (job, index) != own:
                        self._connect(f"{job} {index} at {address!r}", address)

    def lost(self) -> list[str]:
        """Returns the names of the peers whose process has ended since `connect`."""
        with self._lock:
            for line in [each for each in self._lines if not _is_open(each)]:
                self._lost.append(self._lines.pop(line))
                line.close()
            return list(self._lost)

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()

    def _connect(self, name: str, address: str) -> None:
        try:
            line = connect(address, CONNECT_SECS)
            line.sendall(HTTP2_GREETING)
            if not line.recv(4096):
                raise ConnectionError("The server has closed the connection.")
            line.sendall(_SETTINGS_TAKEN)
            line.setblocking(False)
        except OSError:
            self._lost.append(name)
        else:
            self._lines[line] = name


def names_chief(names: Sequence[str]) -> bool:
    """Returns True if the chief is among workers."""
    return any(name.split()[0] in CHIEFS for name in names)


def _is_open(line: socket.socket) -> bool:
    """Returns True unless the other end is gone; drops what it has sent."""
    try:
        return bool(line.recv(4096))
    except BlockingIOError:
        return True
    except OSError:  # Also one of the network that gives up, such as "No route to host".
        return False


def loss_of(config: RunConfig, names: Sequence[str]) -> str:
    """Returns the text of the error about lost workers."""
    return (
        f"{config.task_type} {config.task_id} ends because a step cannot be completed: there is no "
        f"answer from {'; '.join(names)}. {_way_on(config)}"
    )


def cut_off(config: RunConfig) -> CutOffError:
    """Returns the error of a worker that no other answers, while others can go on without it."""
    return CutOffError(
        f"{config.task_type} {config.task_id} ends because none of the other workers answers it; "
        "they can go on without it. Look for a fault of its network."
    )


def _way_on(config: RunConfig) -> str:
    """Returns the text about the next start."""
    fewest = None if config.all_reduce is None else config.all_reduce.min_workers
    if fewest is None:
        return (
            "Start all workers again, or look for its error; training continues from the newest "
            "checkpoint."
        )
    return (
        f"Those that are left hand over the newest step and end: replicate.launch with "
        f"--min_workers={fewest} starts them as a new group. Nothing else does: another scheduler "
        "must start as many workers as TF_CONFIG lists, and training continues from that step."
    )
