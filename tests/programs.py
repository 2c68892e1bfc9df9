"""Programs in processes of their own, which need not import TensorFlow: that takes seconds.

All test processes of a run share one server of `tests.program_server`, whose forks they are.
"""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).parents[1]
NUMBER = struct.Struct("!q")


class Server:
    """The process that forks programs, as its starter sees it.

    Attributes:
      address: Of its socket: `Program` connects to it.
    """

    def __init__(self):
        self.address = f"replicate-tests-{os.getpid()}-{time.monotonic_ns()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{self.address}")
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.program_server", str(listener.fileno())],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def stop(self):
        """Ends the server. Running programs go on as long as their tests."""
        self._process.stdin.close()
        self._process.wait()


class Program:
    """A running program, with pipes, like a `subprocess.Popen`.

    Args:
      address: The server's.
      request: Keyword arguments of `tests.program_server.become`.
    """

    # A program lives as long as its connection, so each is kept until it has ended.
    _running: ClassVar = set()

    def __init__(self, address, **request):
        pipes = [os.pipe() for _ in range(3)]
        (stdin, ours), *printed = pipes
        theirs = [stdin, *(write for _, write in printed)]
        self.stdin = os.fdopen(ours, "w", buffering=1)
        self.stdout, self.stderr = (os.fdopen(read) for read, _ in printed)
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(f"\0{address}")
        data = json.dumps(request).encode()
        socket.send_fds(self._connection, [NUMBER.pack(len(data))], theirs)
        self._connection.sendall(data)
        for descriptor in theirs:
            os.close(descriptor)
        self._code = None
        self.pid = self._receive()
        self._running.add(self)

    def _receive(self):
        data = self._connection.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(data) < NUMBER.size:
            raise RuntimeError("The server of the tests' programs has ended.")
        return NUMBER.unpack(data)[0]

    @property
    def returncode(self):
        """Exit code (below 0: the signal that ended it), None while it runs."""
        return self.wait(0)

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        """Waits for the end, at most `timeout` seconds, and returns the exit code or None."""
        if self._code is None and select.select([self._connection], [], [], timeout)[0]:
            self._code = self._receive()
            self._connection.close()
            self._running.discard(self)
        return self._code

    def send_signal(self, number):
        """Sends a signal to all of the group that is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Waits for the end, which it forces after a time; returns what is left of the output."""
        with ThreadPoolExecutor(2) as readers:
            left = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            if self.wait(timeout) is None:
                self.kill()
                self.wait()
            out, err = (each.result() for each in left)
        self.close()
        return out, err

    def close(self):
        """Closes the pipes."""
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
