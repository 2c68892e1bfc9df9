import socket
import threading
import time

import pytest
import tensorflow as tf

from replicate.estimator.cluster import brief_session
from replicate.estimator.cluster.brief_session import run_briefly
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1
LIMIT_SECS = 0.3


def start(ps_port):
    """Starts the server of a worker in this process; returns its address and settings."""
    [port] = free_ports(1)
    worker, ps = f"localhost:{port}", f"127.0.0.1:{ps_port}"
    jobs = {"chief": ("127.0.0.1:1",), "worker": (worker,), "ps": (ps,)}
    config = RunConfig(cluster=ClusterConfig(jobs, "worker", 0))
    server = v1.train.Server(config.cluster_spec, job_name="worker", task_index=0)
    return server.target, config


def test_silent_server_ends_the_call_in_time_and_leaves_no_thread(graph):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target, config = start(silent.getsockname()[1])
        threads = threading.active_count()
        started = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError):
            run_briefly(tf.constant(3), target, config, "/job:ps/task:0", LIMIT_SECS)
        assert time.monotonic() - started >= LIMIT_SECS
        assert threading.active_count() == threads


def test_value_comes_back(graph, roles):
    config = RunConfig(cluster=roles["chief", 0])
    with v1.device("/job:ps/task:0"):
        value = tf.constant(3) + 1
    assert run_briefly(value, config.master, config, "/job:ps/task:0", 30) == 4


def test_server_named_by_tf_config_is_called_by_that_name(graph, monkeypatch):
    targets = []
    jobs = {"chief": ("127.0.0.1:1",), "ps": ("127.0.0.1:2",)}
    cluster = ClusterConfig(jobs, "chief", 0, session_master="grpc://beside:1")
    run = v1.Session
    # The module's own name for it: TensorFlow has several modules tf.compat.v1.
    monkeypatch.setattr(
        brief_session.v1, "Session", lambda target, config: targets.append(target) or run()
    )
    value = tf.constant(3)
    for target in ("grpc://beside:1", "grpc://here:2", "grpc://127.0.0.1:2", "grpc://[::1]:2"):
        assert run_briefly(value, target, RunConfig(cluster=cluster), "/job:ps", 30) == 3
    assert targets == [
        "grpc://beside:1",
        "grpc://127.0.0.1:2",
        "grpc://localhost:2",
        "grpc://127.0.0.1:2",
    ]
