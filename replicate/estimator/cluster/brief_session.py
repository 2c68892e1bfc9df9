"""Brief sessions: one operation on the servers of a cluster, with a time limit that holds.

TensorFlow limits the calls of a session that reaches its server over the network. A server of this
process is called directly instead, if a session names it as it names itself, and then a new session
waits for other servers without a limit. So brief sessions call this process by another name. No
thread is left behind: a call that came back while the interpreter ends would abort the process.
"""

import contextlib
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.addresses import host_and_port
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import restricted_options

v1 = tf.compat.v1

_SCHEME = "grpc://"
_LOOPBACK = ("127.0.0.1", "localhost")


def run_briefly(
    fetch: Tensor, target: str, config: RunConfig, device: str, limit_secs: float
) -> Any:
    """Returns the value of a fetch that involves this process and another one.

    `target` is the server that runs the sessions of this process, `device` the job and index of the
    other. Connecting, running and closing may take `limit_secs` each.

    Raises:
      OpError: The fetch has failed; `DeadlineExceededError` if the time was over.
    """
    options = restricted_options(config, device, own_device(config))
    options.operation_timeout_in_ms = max(1, int(1000 * limit_secs))
    session = v1.Session(_over_the_network(target, config), config=options)
    try:
        return session.run(fetch)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            session.close()


def _over_the_network(target: str, config: RunConfig) -> str:
    """Returns the address of a server; that of this process by a name that it does not know."""
    if target == config.cluster.session_master:
        return target
    host, port = host_and_port(target.removeprefix(_SCHEME))
    name = next(each for each in _LOOPBACK if each != host)
    return f"{_SCHEME}{name}:{port}"


def own_device(config: RunConfig) -> str:
    """Returns the device string of this task: its job and index."""
    return f"/job:{config.task_type}/task:{config.task_id}"
