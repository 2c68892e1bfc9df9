"""Connections of a server: which of them are dead, and the end of those that hang."""

import os
import socket
import threading

import pytest
import tensorflow as tf

from replicate.estimator.cluster import connections, server_session
from replicate.estimator.cluster.connections import (
    DeadConnection,
    close_connections,
    dead_connection,
    disconnect_at_the_end,
)
from replicate.estimator.run_config import RunConfig


@pytest.fixture
def worker(roles):
    """Settings of a worker whose cluster runs in this process."""
    return RunConfig(cluster=roles["worker", 0])


@pytest.mark.parametrize(
    ("hangs", "is_own", "owner"),
    [("/job:ps/task:1", True, "worker 0"), ("/job:worker/task:0", False, "ps 1")],
)
def test_dead_connection_is_named_with_the_task_that_opened_it(
    hangs, is_own, owner, worker, monkeypatch
):
    address = worker.cluster.jobs["ps"][1]
    asked = []

    def arrives(config, source, server):
        asked.append((source, server))
        return server != "/job:ps/task:1" or source != hangs

    monkeypatch.setattr(connections, "_value_arrives", arrives)
    dead = dead_connection(worker)
    assert dead == DeadConnection("worker 0", 1, address, is_own)
    assert dead.owner == owner
    ends = ["worker 0", f"ps 1 at '{address}'"]
    first, second = ends if is_own else ends[::-1]
    assert str(dead) == f"the connection from {first} to {second}"
    assert asked[:2] == [("/job:ps/task:0",) * 2, ("/job:worker/task:0", "/job:ps/task:0")]


def test_connection_is_dead_if_no_answer_comes_and_an_error_is_an_answer(worker, monkeypatch):
    def fail(*_):
        raise error

    assert dead_connection(worker) is None
    monkeypatch.setattr(tf.compat.v1.Session, "run", fail)
    error = tf.errors.InvalidArgumentError(None, None, "no such device")
    assert dead_connection(worker) is None
    error = tf.errors.DeadlineExceededError(None, None, "late")
    dead = dead_connection(worker)
    assert (dead.server, dead.is_own) == (0, True)


@pytest.fixture
def connect():
    """Opens connections to a free port each; returns the port and both ends."""
    opened = []

    def open_one():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            here = socket.create_connection(listening.getsockname())
            there, _ = listening.accept()
        here.settimeout(20)
        there.settimeout(0.05)
        opened.extend([here, there])
        return there.getsockname()[1], here, there

    yield open_one
    for end in opened:
        end.close()


def is_open(end):
    try:
        return end.recv(1) != b""
    except TimeoutError:
        return True


def test_only_connections_to_the_ports_are_closed(connect):
    port, _, there = connect()
    _, _, other = connect()
    left, right = socket.socketpair()
    files = len(os.listdir("/dev/fd"))
    with left, right:
        close_connections({port})
        left.send(b"x")
        assert right.recv(1) == b"x"
    assert not is_open(there)
    assert is_open(other)
    assert len(os.listdir("/dev/fd")) <= files


@pytest.fixture
def at_the_end(monkeypatch):
    """Functions that the process would call at its end."""
    calls = []

    def register(function, *arguments):
        calls.append(lambda: function(*arguments))

    monkeypatch.setattr(connections.atexit, "register", register)
    monkeypatch.setattr(server_session, "END_SECS", 0.05)
    return calls


def test_call_that_hangs_fails_before_the_end(connect, at_the_end):
    port, here, there = connect()
    disconnect_at_the_end([port])
    at_the_end[0]()
    assert is_open(there), "no call hangs"
    ends = []
    hanging = threading.Thread(
        target=lambda: ends.append(here.recv(1)), name=server_session.CALLING, daemon=True
    )
    hanging.start()
    at_the_end[0]()
    assert not hanging.is_alive()
    assert ends == [b""]
