"""Identity of a process, by which another process can tell that it has ended.

A process number alone is not enough: another host, another boot, another container, or a later
process can have the same one. Only Linux tells all four; on other systems a process never counts as
ended, and its lease has to run out.
"""

import contextlib
import os
import socket
from typing import NamedTuple

_BOOT_FILE = "/proc/sys/kernel/random/boot_id"
_NAMESPACE_LINK = "/proc/self/ns/pid"
_STATE, _START = 0, 19
"""Places of two fields of /proc/PID/stat, counted after the name of the program."""


class ProcessIdentity(NamedTuple):
    """Identity of a process.

    Attributes:
      host: Name of its host, for messages.
      pid: Number of the process.
      boot: Number that Linux gave to the boot of the host; "" if it is unknown.
      namespace: Namespace of process numbers, which differs between containers; "" if unknown.
      started: Clock ticks between boot and start of the process; "" if unknown.
    """

    host: str
    pid: int
    boot: str = ""
    namespace: str = ""
    started: str = ""


def this_process() -> ProcessIdentity:
    """Returns the identity of the calling process."""
    boot = namespace = ""
    with contextlib.suppress(OSError):
        with open(_BOOT_FILE, encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink(_NAMESPACE_LINK)
    pid = os.getpid()
    return ProcessIdentity(socket.gethostname(), pid, boot, namespace, _stat(pid)[1])


def has_ended(process: ProcessIdentity) -> bool:
    """Returns True if a process has certainly ended; False if it runs, or nothing is known."""
    here = this_process()
    is_known = bool(here.boot and here.namespace and here.started and process.started)
    if not is_known or (process.boot, process.namespace) != (here.boot, here.namespace):
        return False
    state, started = _stat(process.pid)
    if not started:
        return not _exists(process.pid)
    return started != process.started or state in ("Z", "X")


def _exists(pid: int) -> bool:
    """Returns True if there is a process of this number, also if /proc hides it from this user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _stat(pid: int) -> tuple[str, str]:
    """Returns state and start of a process; empty ones if it cannot be seen."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[_STATE], fields[_START]
