"""Disconnection: ends calls to servers that do not answer, before the interpreter ends.

A thread whose call returns while the interpreter ends aborts the process. The end of the process
would close its connections anyway. This module closes those to the servers of the cluster a little
earlier if calls still hang on them: the calls then fail while the threads can still handle it.
"""

import atexit
import contextlib
import os
import socket
import stat
from collections.abc import Collection

from replicate.estimator.cluster.server_session import has_hanging_calls, wait_for_calls

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
