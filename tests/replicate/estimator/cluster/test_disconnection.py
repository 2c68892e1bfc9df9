import os
import socket
import threading

import pytest

from replicate.estimator.cluster import connections, server_session
from replicate.estimator.cluster.connections import close_connections, disconnect_at_the_end


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
    port, here, _ = connect()
    ends = []
    hanging = threading.Thread(
        target=lambda: ends.append(here.recv(1)), name=server_session.CALLING, daemon=True
    )
    hanging.start()
    disconnect_at_the_end([port])
    at_the_end[0]()
    assert not hanging.is_alive()
    assert ends == [b""]


def test_connections_stay_if_no_call_hangs(connect, at_the_end):
    port, _, there = connect()
    disconnect_at_the_end([port])
    at_the_end[0]()
    assert is_open(there)
