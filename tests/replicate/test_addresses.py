import subprocess
import sys

import pytest

from replicate import addresses
from replicate.addresses import connect, host_and_port, is_listening


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a.example:2222", ("a.example", 2222)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:2222", ("::1", 2222)),
    ],
)
def test_an_address_has_two_parts(address, parts):
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["a.example", "a.example:", "a.example:http"])
def test_an_address_without_a_port_is_refused(address):
    for ask in (host_and_port, lambda text: is_listening(text, 1)):
        with pytest.raises(ValueError, match="invalid literal"):
            ask(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_is_listening_follows_the_server(host):
    family = addresses.socket.AF_INET6 if host == "[::1]" else addresses.socket.AF_INET
    try:
        server = addresses.socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server:
        address = f"{host}:{server.getsockname()[1]}"
        assert is_listening(address, 5)
        with connect(address, 5) as line:
            assert line.gettimeout() == 5
    assert not is_listening(address, 5)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_impossible_host_is_not_listening(host):
    address = f"{host}:1"
    assert not is_listening(address, 5)
    with pytest.raises(OSError):  # noqa: PT011
        connect(address, 5)


def test_timeout_is_passed_on(monkeypatch):
    asked = []

    def refuse(place, timeout):
        asked.append((place, timeout))
        raise TimeoutError

    monkeypatch.setattr(addresses.socket, "create_connection", refuse)
    assert not is_listening("a:1", 2)
    assert asked == [(("a", 1), 2)]


def test_module_imports_no_tensorflow():
    program = "import sys, replicate.addresses; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
