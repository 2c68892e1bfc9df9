"""The exit code of a process whose calls to a stopped server return while the interpreter ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_SERVER = """
import json, sys
import tensorflow as tf
server = tf.compat.v1.train.Server(json.loads(sys.argv[1]), job_name="ps", task_index=0)
print("ready", flush=True)
server.join()
"""

_WORKER = """
import functools, json, os, sys, time
import tensorflow as tf
from replicate.estimator.cluster import connections, servers
from replicate.estimator.cluster.server_session import ServerSession
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import restricted_options

class SlowEnd:
    def __del__(self, say=functools.partial(os.write, 1, b"ends\\n"), sleep=time.sleep):
        say()
        sleep(2)

servers._TELL_SECS = connections.PROBE_SECS = 1
servers._answers = lambda address: True
slow_end = SlowEnd()
jobs = {job: tuple(tasks) for job, tasks in json.loads(sys.argv[1]).items()}
config = RunConfig(cluster=ClusterConfig(jobs, "worker", 0))
server = servers.start_server(config)
with tf.Graph().as_default() as graph, tf.compat.v1.device("/job:ps/task:0"):
    value = tf.random.uniform([])
options = restricted_options(config, "/job:ps", "/job:worker/task:0")
session = ServerSession(config.master, graph, options)
session.run(value)
calls = {
    "tell": lambda: servers.tell_parameter_servers(server.target, config),
    "probe": lambda: connections.dead_connection(config),
    "close": session.close,
}
print("ready", flush=True)
sys.stdin.readline()
calls[sys.argv[2]]()
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("call", ["tell", "probe", "close"])
def test_call_that_returns_during_the_end_does_not_abort_the_process(call):
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        ps, own = (f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second))
    cluster = json.dumps({"chief": ["127.0.0.1:1"], "ps": [ps], "worker": [own]})
    with start(_SERVER, cluster) as server, start(_WORKER, cluster, call) as worker:
        try:
            assert server.stdout.readline() == "ready\n"
            assert worker.stdout.readline() == "ready\n"
            os.kill(server.pid, signal.SIGSTOP)
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "ends\n"
            os.kill(server.pid, signal.SIGCONT)
            assert worker.wait(60) == 0
        finally:
            server.kill()
            worker.kill()
