"""Addresses of a cluster: functions that parse "host:port", connect to it, and test it.

Owns the text form of addresses in TF_CONFIG, including brackets around IPv6 hosts. Callers decide
about timeouts: `doctor.py` tries each address once, the servers of a cluster try repeatedly. This
module does not import TensorFlow, so that the doctor works where TensorFlow is broken.
`replicate.estimator` checks TF_CONFIG itself.
"""

import socket


def host_and_port(address: str) -> tuple[str, int]:
    """Returns the two parts of "host:port", the host without brackets.

    Raises:
      ValueError: The text after the last colon is not a number.
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def connect(address: str, timeout_secs: float) -> socket.socket:
    """Returns a connection to "host:port", to be closed by the caller.

    `timeout_secs` limits the connecting and each later operation on the connection.

    Raises:
      OSError: Nothing listens there, the host is unknown, or the time is over.
      ValueError: The text after the last colon is not a number.
    """
    host, port = host_and_port(address)
    try:
        return socket.create_connection((host, port), timeout_secs)
    except UnicodeError as error:  # Of a name with an empty or a very long part.
        raise OSError(f"{host!r} cannot be the name of a host") from error


def is_listening(address: str, timeout_secs: float) -> bool:
    """Returns True if something accepts connections at "host:port".

    Raises:
      ValueError: The text after the last colon is not a number.
    """
    try:
        connect(address, timeout_secs).close()
    except OSError:
        return False
    return True


def refuses(address: str, timeout_secs: float) -> bool:
    """Returns True if the host of "host:port" says that nothing listens there.

    It is False if there is no answer at all: the network may have a fault.

    Raises:
      ValueError: The text after the last colon is not a number.
    """
    try:
        connect(address, timeout_secs).close()
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    return False
