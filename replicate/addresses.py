"""Addresses of a cluster: "host:port" taken apart, connected to, and whether anybody is there.

Owns the text form of TF_CONFIG's addresses, brackets around IPv6 hosts included, and what it takes
to reach one. How long an answer may take is decided by those who ask: `doctor.py` once for each
address, `estimator/servers.py` again and again. It does not import TensorFlow, so that the doctor
works where that is broken. What stands in TF_CONFIG is checked in `estimator/cluster.py`.
"""

import socket


def host_and_port(address: str) -> tuple[str, int]:
    """Returns the two parts of "host:port", the host without brackets.

    Raises:
      ValueError: What follows the last colon is no number.
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def connect(address: str, timeout_secs: float) -> socket.socket:
    """Returns a connection to "host:port", to be closed by the caller.

    Args:
      address: Where to connect to.
      timeout_secs: How long that may take, and whatever waits for the connection later.

    Raises:
      OSError: Nothing listens there, no such host is known, or it took too long.
      ValueError: As `host_and_port`.
    """
    host, port = host_and_port(address)
    try:
        return socket.create_connection((host, port), timeout_secs)
    except UnicodeError as error:  # Of a name with an empty or a very long part.
        raise OSError(f"{host!r} cannot be the name of a host") from error


def is_listening(address: str, timeout_secs: float) -> bool:
    """Returns whether something accepts connections at "host:port".

    Args:
      address: Where to ask.
      timeout_secs: How long it has to answer.

    Raises:
      ValueError: As `host_and_port`.
    """
    try:
        connect(address, timeout_secs).close()
    except OSError:
        return False
    return True
