"""Connections between this process and the parameter servers, and the search for a dead one.

TensorFlow's servers connect to each other once and keep the connections for life, without
keep-alive messages. A firewall that forgets a connection tells neither end: calls then wait for
ever, although both ends accept new connections. `watchdog.py` looks for such a connection when a
step hangs and every task answers.

A thread whose call returns while the interpreter ends aborts the process. The end of the process
would close its connections anyway. `disconnect_at_the_end` closes those to the servers of the
cluster a little earlier if calls still hang on them: the calls then fail while the threads can
still handle it.
"""

import atexit
import contextlib
import dataclasses
import os
import socket
import stat
from collections.abc import Collection

import tensorflow as tf

from replicate.estimator.cluster.brief_session import own_device, run_briefly
from replicate.estimator.cluster.server_session import has_hanging_calls, wait_for_calls
from replicate.estimator.run_config import RunConfig
from replicate.roles import TaskType

v1 = tf.compat.v1

PROBE_SECS = 10
"""Seconds in which a value must cross a connection."""


@dataclasses.dataclass(frozen=True)
class DeadConnection:
    """A connection over which no value comes. `str()` names its ends.

    Attributes:
      name: Name of this process, such as "worker 0".
      server: Index of the parameter server.
      address: Address of the parameter server, as TF_CONFIG gives it.
      is_own: True if this process has opened the connection, False if the parameter server has.
    """

    name: str
    server: int
    address: str
    is_own: bool

    @property
    def owner(self) -> str:
        """Name of the process that has opened the connection, and gets a new one by a restart."""
        return self.name if self.is_own else f"ps {self.server}"

    @property
    def advice(self) -> str:
        """A clause that names the connection, and says what to do."""
        return (
            f"{self} is dead: no value comes over it, though both ends accept new ones. Start "
            f"{self.owner} again, so that it connects anew"
        )

    def __str__(self) -> str:
        server = f"ps {self.server} at {self.address!r}"
        ends = (self.name, server) if self.is_own else (server, self.name)
        return "the connection from {} to {}".format(*ends)


def dead_connection(config: RunConfig) -> DeadConnection | None:
    """Returns the first dead connection to or from a parameter server, None if all are alive."""
    name = f"{config.task_type} {config.task_id}"
    own = own_device(config)
    for index, address in enumerate(config.cluster.jobs.get(TaskType.PS, ())):
        server = f"/job:{TaskType.PS}/task:{index}"
        for source in (server, own):  # Servers fetch values: the second one crosses both ways.
            if not _value_arrives(config, source, server):
                return DeadConnection(name, index, address, is_own=source == server)
    return None


def _value_arrives(config: RunConfig, source: str, server: str) -> bool:
    """Returns True if a value that is made on `source` comes back by way of `server` in time."""
    with tf.Graph().as_default():
        with v1.device(source):
            value = tf.random.uniform([])
        with v1.device(server):
            value = tf.identity(value)
        try:
            run_briefly(value, config.master, config, server, PROBE_SECS)
        except tf.errors.DeadlineExceededError:
            return False
        except tf.errors.OpError:  # Some server has answered, at least.
            return True
    return True


CUT_SECS = 15
"""Seconds that a process waits for calls whose connections were closed: TensorFlow takes 10."""

_FOLDERS = ("/proc/self/fd", "/dev/fd")


def disconnect_at_the_end(ports: Collection[int]) -> None:
    """Makes the process close its connections to some ports when it ends, if calls hang on them."""
    atexit.register(_disconnect, frozenset(ports))


def _disconnect(ports: Collection[int]) -> None:
    wait_for_calls()
    if has_hanging_calls():
        close_connections(ports)
        wait_for_calls(CUT_SECS)


def close_connections(ports: Collection[int]) -> None:
    """Closes all connections of this process to some ports, whoever has made them."""
    folder = next(filter(os.path.isdir, _FOLDERS), None)
    for name in os.listdir(folder) if folder else ():
        with contextlib.suppress(OSError):  # The file was closed meanwhile, or has no other end.
            _close_if_to(ports, int(name))


def _close_if_to(ports: Collection[int], number: int) -> None:
    """Closes the connection of a file descriptor, if it is one to some ports."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return
    with socket.socket(fileno=os.dup(number)) as connection:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and connection.getpeername()[1] in ports:
            connection.shutdown(socket.SHUT_RDWR)
