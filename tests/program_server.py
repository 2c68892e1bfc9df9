"""The server that forks the programs of `tests.programs`. It imports TensorFlow once.

server                       waits for requests, until its starter ends
  └─ keeper (a fork)         tells a test how its program ended; kills it if the test is gone
       └─ program (a fork)   has a session, so a process group, of its own
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import types

from tests.programs import NUMBER


def serve(listener):
    """Forks a keeper for each request until the starter ends; returns a program in its process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Keepers need no wait.
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            sys.exit()
        load()
        connection, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return keep(connection)
        connection.close()


@functools.cache
def load():
    """Imports what most programs use, and keeps its objects out of their garbage collections."""
    for name in ("tensorflow", "kfac", "replicate.public", "replicate.estimator.run_config"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 50)


def keep(connection):
    """Forks the program and tells its end to the test; returns the program in its process."""
    length, descriptors, _, _ = socket.recv_fds(connection, NUMBER.size, 3)
    data = connection.recv(NUMBER.unpack(length)[0], socket.MSG_WAITALL)
    pid = os.fork()
    if not pid:
        connection.close()
        return become(descriptors, **json.loads(data))
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(NUMBER.pack(pid))
        ended = os.pidfd_open(pid)
        ready, _, _ = select.select([connection, ended], [], [])
        if ended not in ready:  # The test is gone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(descriptors, program, arguments, folder, environment, quick):
    """Makes this process look like that of `python -c program`, and returns the compiled program.

    Args:
      descriptors: Of standard input, output and error.
      program: Its text.
      arguments: What follows the program's name in `sys.argv`.
      folder: Working directory.
      environment: All environment variables.
      quick: Graphs run as they are, also those of Estimators.
    """
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    if quick:
        leave_graphs_as_they_are()
    return compile(program, "<program>", "exec")


def leave_graphs_as_they_are():
    tf, run_config = sys.modules["tensorflow"], sys.modules["replicate.estimator.run_config"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    options = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    run_config.default_session_config = lambda cluster: options


if __name__ == "__main__":
    code = serve(socket.socket(fileno=int(sys.argv[1])))
    # Only the processes of programs arrive here.
    sys.modules["server"] = sys.modules["__main__"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(code, main.__dict__)
