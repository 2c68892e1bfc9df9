"""The proxy of the network tests delays, slows, silences and cuts connections as it says."""

import contextlib
import socket
import threading
import time

import pytest

pytestmark = pytest.mark.broad  # All other tests that use the proxy are broad or slow.


@pytest.fixture
def line(network, proxies):
    """A link, and functions that open a connection through it to a server that echoes."""

    def echo(connection):
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=echo, args=listener.accept()[:1], daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with contextlib.ExitStack() as stack:
        link = proxies.add(f"127.0.0.1:{listener.getsockname()[1]}")

        def connect():
            host, port = link.address.split(":")
            return stack.enter_context(socket.create_connection((host, int(port)), 10))

        yield link, connect
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    server.join(10)


def echo_secs(connection, data=b"word"):
    """Seconds until all data has come back."""
    started, back = time.monotonic(), b""
    connection.sendall(data)
    while len(back) < len(data):
        back += connection.recv(1 << 16)
    assert back == data
    return time.monotonic() - started


def is_silent(connection):
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(10)
    return True


def test_bytes_and_their_end_arrive_after_a_delay(line, network):
    link, connect = line
    link.condition = network.Condition(delay_secs=0.1)
    connection = connect()
    assert 0.2 <= echo_secs(connection) < 2, "each way"
    assert echo_secs(connection, bytes(1 << 20)) < 3, "chunks are under way at the same time"
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
    assert link.moved == {"out": (1 << 20) + 4, "back": (1 << 20) + 4}


def test_throttle_bounds_the_speed(line, network):
    link, connect = line
    link.condition = network.Condition(bytes_per_sec=20_000)
    assert echo_secs(connect(), bytes(8000)) >= 0.4


def test_silent_link_delivers_later_and_resets_connections_that_lost_bytes(line, network):
    link, connect = line
    kept, lost = connect(), connect()
    for connection in (kept, lost):
        echo_secs(connection)
    for silent in ("out", "back", "both"):
        link.condition = network.Condition(silent=silent)
        kept.sendall(b"kept")
        assert is_silent(kept)
        link.condition = network.Condition()
        assert kept.recv(4) == b"kept"
    link.condition = network.Condition(silent="both", loses=True)
    lost.sendall(b"lost")
    assert is_silent(lost)
    link.condition = network.Condition()
    with pytest.raises(ConnectionResetError):
        lost.recv(1)
    assert echo_secs(kept) < 10


def test_cut_link_and_absent_server_reset_connections(line, network, proxies):
    link, connect = line
    old = connect()
    echo_secs(old)
    link.condition = network.Condition(resets=True)
    for made in (lambda: old, connect):
        with pytest.raises(ConnectionResetError):
            made().recv(1)
    link.condition = network.Condition()
    assert echo_secs(connect()) < 10
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    host, port = proxies.add(f"127.0.0.1:{port}").address.split(":")
    with pytest.raises(ConnectionResetError), socket.create_connection((host, int(port))) as made:
        made.recv(1)


def test_forgotten_connection_is_silent_beside_a_new_one(line):
    link, connect = line
    old = connect()
    echo_secs(old)
    link.forget()
    old.sendall(b"lost")
    assert is_silent(old)
    assert echo_secs(connect()) < 10
