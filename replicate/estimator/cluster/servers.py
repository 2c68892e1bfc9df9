"""Servers of a cluster: start, wait for others, and end together.

Owns the TensorFlow server of this process, the wait for the parameter servers, the check for absent
tasks, and a small queue on each parameter server. Each task that trains puts its number into the
queues when it is done, so that the parameter servers can end, or a number below 0 if the server's
connection to the task is dead. `train_and_evaluate`, the session
creators and the watchdog call this module.

TensorFlow's servers know no passwords and listen on all network interfaces, whatever address the
cluster gives: anyone who reaches the port can run code. A cluster belongs on a private network.
"""

import concurrent.futures
import contextlib
import socket
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.addresses import connect, host_and_port, is_listening, refuses
from replicate.errors import ClusterError
from replicate.estimator.cluster.brief_session import (
    own_device,
    run_briefly,
)
from replicate.estimator.cluster.connections import disconnect_at_the_end
from replicate.estimator.end_marker import TrainingEnd
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import (
    complete_config,
    lead_collectives,
    restricted_options,
)
from replicate.estimator.signals import Interruption, interruptions
from replicate.exit_codes import signal_exit_code
from replicate.roles import TRAINERS, TaskType

v1 = tf.compat.v1

POLL_SECS = 0.5
"""Seconds between two checks of another process, at most."""

LEAVE_SECS = 60
"""Seconds that a parameter server waits for workers after the chief is done."""

SAY_SECS = 10
"""Seconds of waiting after which the log mentions it."""

STOP_SECS = 25
"""Seconds that a parameter server, asked to end by a signal, waits for the others to save."""

LOOK_SECS = 10
"""Seconds between two checks of a parameter server that chief and workers can be reached."""

WORKER_DELAY_SECS = 5
"""Seconds between the starts of two workers, where workers shall not start at once."""

HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First words of a client: a gRPC server answers them."""

_SHORTEST_POLL_SECS = 0.1
_TELL_SECS = 10
_ANSWER_SECS = 5
_MOST_ASKED = 256  # Tasks that are asked at the same time.
_REFUSAL_SECS = 1
_CHIEF = 0
_DEAD = -1  # This number and those below: -1 - the number of a task whose connection is dead.


class WaitCancelled(Exception):  # noqa: N818
    """A wait for another process was cancelled: a signal arrived, or training has ended."""


def start_server(config: RunConfig) -> v1.train.Server:
    """Starts and returns the server of this process.

    Raises:
      ClusterError: Its port is in use.
      ValueError: A strategy of this process uses it.
    """
    task, index = config.task_type, config.task_id
    address = config.cluster.jobs[task][index]
    _, port = host_and_port(address)
    if not _is_free(port):
        if _has_eager_server():
            raise ValueError(
                f"Cannot start the server of {task} {index} on port {port}, which TF_CONFIG gives "
                f"as {address!r}: TensorFlow's eager mode has started a server there in this "
                "process, as tf.distribute.MultiWorkerMirroredStrategy() does when it is made "
                "outside of a graph. Write RunConfig(train_distribute=replicate.AllReduce()) and "
                "make no strategy, or call tf.compat.v1.disable_eager_execution() before it."
            )
        raise ClusterError(
            f"Cannot start the server of {task} {index}: port {port}, given for it in TF_CONFIG as "
            f"{address!r}, is in use. End the process that holds it, or choose another port."
        )
    warn_of_open_port(config)
    others = (address for tasks in config.cluster.jobs.values() for address in tasks if address)
    disconnect_at_the_end({host_and_port(each)[1] for each in others})
    options = complete_config(config.session_config)
    del options.device_filters[:]  # These are for sessions; a server serves others, too.
    if config.all_reduce is not None:
        lead_collectives(options, config)
    return v1.train.Server(
        config.cluster_spec,
        job_name=task,
        task_index=index,
        protocol=config.protocol,
        config=options,
    )


def warn_of_open_port(config: RunConfig) -> None:
    """Warns that everybody who reaches the port of this process can run code in it."""
    task, index = config.task_type, config.task_id
    log.warning(
        "The server of %s %d listens on port %d of all interfaces, without any authentication: "
        "keep the port closed to everybody else.",
        task,
        index,
        host_and_port(config.cluster.jobs[task][index])[1],
    )


def delay_worker(config: RunConfig, should_cancel: Callable[[], bool] = bool) -> None:
    """Waits before a worker starts to train, if `experimental_max_worker_delay_secs` is given.

    Workers then start one after the other, `WORKER_DELAY_SECS` apart.
    """
    limit = config.experimental_max_worker_delay_secs
    if not limit or config.is_chief:
        return
    secs = min(limit, WORKER_DELAY_SECS * (config.task_id + 1))
    log.info("Waiting %g seconds before this worker starts to train.", secs)
    deadline = time.monotonic() + secs
    while (left := deadline - time.monotonic()) > 0 and not should_cancel():
        time.sleep(min(POLL_SECS, left))


def wait_for_parameter_servers(config: RunConfig, should_cancel: Callable[[], bool] = bool) -> None:
    """Waits until every parameter server of the cluster answers.

    Raises:
      ClusterError: A server does not answer within `session_creation_timeout_secs`.
      WaitCancelled: `should_cancel` returned True.
    """
    started = time.monotonic()
    has_said = False
    for index, address in _addresses(config, TaskType.PS):
        while not _answers(address):
            waited = time.monotonic() - started
            if should_cancel():
                raise WaitCancelled(f"No longer waiting for ps {index}.")
            if waited > config.session_creation_timeout_secs:
                raise ClusterError(
                    f"{config.task_type} {config.task_id} has waited "
                    f"{config.session_creation_timeout_secs:g} seconds for ps {index} at "
                    f"{address!r}, which does not answer. Start it, correct its address in "
                    "TF_CONFIG, or look for a fault of the network between the two."
                )
            if waited > SAY_SECS and not has_said:
                has_said = True
                log.warning("Waiting for ps %d at %r.", index, address)
            time.sleep(poll_secs(waited, POLL_SECS))


def poll_secs(waited: float, longest: float) -> float:
    """Returns the seconds until the next check of another process: a tenth of the time waited.

    A process that comes back soon is noticed at once, and a long wait costs few checks.
    """
    return min(longest, max(_SHORTEST_POLL_SECS, waited / 10))


def absent_tasks(
    config: RunConfig, jobs: Iterable[str], limit_secs: float = _ANSWER_SECS
) -> list[str]:
    """Returns tasks of jobs, this one excepted, that do not answer, such as "ps 0 at 'a:2222'".

    All are asked at once, and have `limit_secs` for their answers: a process whose own link is cut
    knows it as soon as the others do.
    """
    own = (config.task_type, config.task_id)
    asked = {
        f"{job} {index} at {address!r}": address
        for job in jobs
        for index, address in _addresses(config, job)
        if (job, index) != own
    }
    answers = _of_each(_answers, asked.values(), limit_secs)
    return [name for name, answer in zip(asked, answers, strict=True) if not answer]


def is_cut_off(config: RunConfig, limit_secs: float = _ANSWER_SECS) -> bool:
    """Returns True if the link of this worker must be cut, and other workers can go on without it.

    None of at least two others answers then, nor refuses to, as a machine does for a process that
    has ended or has not begun. All are asked at once, and have `limit_secs` for their answers.
    """
    own = config.global_id_in_cluster
    others = [address for rank, (_, address) in enumerate(_trainers(config)) if rank != own]
    if len(others) < 2 or config.all_reduce is None or config.all_reduce.min_workers is None:
        return False
    return all(_of_each(_is_silent, others, limit_secs))


def have_ended(config: RunConfig, ranks: Iterable[int]) -> bool:
    """Returns True if the processes of all these workers have ended: their ports are closed.

    Ranks are those of `global_id_in_cluster`. A process that is stopped, or that the network does
    not reach, may not have ended.
    """
    workers = _trainers(config)
    return all(refuses(workers[rank][1], _REFUSAL_SECS) for rank in ranks)


def tell_parameter_servers(target: str, config: RunConfig) -> None:
    """Tells the parameter servers that this process is done; those that have ended are skipped."""
    for index, address in enumerate(config.cluster.jobs.get(TaskType.PS, ())):
        if address and not _answers(address):
            continue  # A session would wait for this server without a limit.
        try:
            _tell(target, config, index, config.global_id_in_cluster or 0)
        except tf.errors.OpError as error:
            log.warning(
                "ps %d was not told that %s %d is done, and leaves later by itself: %s.",
                index,
                config.task_type,
                config.task_id,
                type(error).__name__,
            )


def report_dead_connection(target: str, config: RunConfig, index: int) -> None:
    """Tells a parameter server that its connection to this process is dead: the server then ends.

    Nothing happens if it cannot be told.
    """
    with contextlib.suppress(tf.errors.OpError):
        _tell(target, config, index, _DEAD - (config.global_id_in_cluster or 0))


def _tell(target: str, config: RunConfig, index: int, number: int) -> None:
    """Puts a number into the queue of a parameter server.

    Raises:
      OpError: The server does not take it in time.
    """
    with tf.Graph().as_default():
        put = _done_queue(index, config).enqueue(number)
        run_briefly(put, target, config, f"/job:{TaskType.PS}/task:{index}", _TELL_SECS)


def serve_until_done(target: str, config: RunConfig) -> None:
    """Keeps a parameter server running until chief and workers are done.

    The server ends `LEAVE_SECS` after the chief, even if a worker is not done. It also ends if the
    model directory says that training has ended and no chief or worker can be reached. After a
    signal it stays until chief and workers have ended, because they need it to save, but for
    `STOP_SECS` at most.

    Raises:
      SystemExit: A signal asked for the end; the code is 128 + signal.
      ClusterError: No chief or worker that is not done could be reached for
        `session_creation_timeout_secs`, or one of them has found that the connection to it is dead.
    """
    plan = f"staying until chief and workers have ended, {STOP_SECS:g} seconds at most"
    with interruptions(plan) as interruption, tf.Graph().as_default():
        queue = _done_queue(config.task_id, config)
        size, taken = queue.size(), queue.dequeue()
        with v1.Session(target, config=restricted_options(config, own_device(config))) as session:
            _wait_for_all(session, size, taken, config, interruption)
    if interruption.signum is not None:
        raise SystemExit(signal_exit_code(interruption.signum))


def _wait_for_all(
    session: v1.Session, size: Tensor, taken: Tensor, config: RunConfig, interruption: Interruption
) -> None:
    training_end = TrainingEnd(str(config.model_dir))
    missing = dict(enumerate(_trainers(config)))
    deadline = float("inf")
    seen_at = looked_at = time.monotonic()
    while missing and time.monotonic() < deadline:
        if session.run(size):
            missing.pop(_done_task(int(session.run(taken)), config), None)
            if _CHIEF not in missing and deadline == float("inf"):
                deadline = time.monotonic() + LEAVE_SECS
            continue
        time.sleep(POLL_SECS)
        if interruption.requested_at is not None:
            deadline = min(deadline, interruption.requested_at + STOP_SECS)
            if not any(is_listening(address, _ANSWER_SECS) for _, address in missing.values()):
                return
            continue
        if time.monotonic() - looked_at < min(LOOK_SECS, config.session_creation_timeout_secs):
            continue
        looked_at = time.monotonic()
        if any(_answers(address) for _, address in missing.values()):
            seen_at = looked_at
        elif _CHIEF not in missing or training_end.is_new():
            return
        elif looked_at - seen_at > config.session_creation_timeout_secs:
            names = ", ".join(f"{name} at {address!r}" for name, address in missing.values())
            raise ClusterError(
                f"ps {config.task_id} has waited {config.session_creation_timeout_secs:g} seconds "
                f"for chief and workers: {names} do not answer and have not said that they are "
                "done. Start them, or look for their errors."
            )


def _done_task(number: int, config: RunConfig) -> int:
    """Returns the number of the task that is done, as the queue of this parameter server holds it.

    Raises:
      ClusterError: The number says instead that the connection from here to a task is dead.
    """
    if number > _DEAD:
        return number
    name, address = _trainers(config)[_DEAD - number]
    raise ClusterError(
        f"ps {config.task_id} ends because {name} has found the connection from here to {name} at "
        f"{address!r} dead: no value comes over it, and neither end was told. Start ps "
        f"{config.task_id} again, so that it connects anew; training continues from the newest "
        "checkpoint."
    )


def _trainers(config: RunConfig) -> list[tuple[str, str]]:
    """Returns name and address of chief and workers, in the order of `global_id_in_cluster`."""
    return [
        (f"{job} {index}", address)
        for job in TRAINERS
        for index, address in _addresses(config, job)
    ]


def _done_queue(index: int, config: RunConfig) -> Any:
    """Returns the queue on a parameter server that receives the number of each done process."""
    with v1.device(f"/job:{TaskType.PS}/task:{index}"):
        return v1.FIFOQueue(
            10 * config.num_worker_replicas, tf.int32, shapes=(), shared_name=f"all_done/{index}"
        )


def _addresses(config: RunConfig, job: str) -> list[tuple[int, str]]:
    """Returns index and address of the tasks of a job whose address is known."""
    return [pair for pair in enumerate(config.cluster.jobs.get(job, ())) if pair[1]]


def _answers(address: str, limit_secs: float = _ANSWER_SECS) -> bool:
    """Returns True if a gRPC server at "host:port" greets a client in time."""
    return bool(_reply(address, limit_secs))


def _is_silent(address: str, limit_secs: float) -> bool:
    """Returns True if neither a server at "host:port" nor the system of its machine answers."""
    return _reply(address, limit_secs) is None


def _reply(address: str, limit_secs: float) -> bytes | None:
    """Returns the first byte of a server at "host:port": b"" for a refusal, None for silence."""
    try:
        with connect(address, limit_secs) as line:
            line.sendall(HTTP2_GREETING)
            return line.recv(1)
    except ConnectionError:
        return b""
    except OSError:
        return None


def _of_each(
    ask: Callable[[str, float], bool], addresses: Collection[str], limit_secs: float
) -> list[bool]:
    """Returns what `ask` tells of each address. All are asked at once."""
    if not addresses:
        return []
    with concurrent.futures.ThreadPoolExecutor(min(len(addresses), _MOST_ASKED)) as pool:
        return list(pool.map(lambda address: ask(address, limit_secs), addresses))


def _has_eager_server() -> bool:
    """Returns True if TensorFlow's eager mode has a server: its devices then belong to a job."""
    return any("/job:" in device.name for device in tf.config.list_logical_devices("CPU"))


def _is_free(port: int) -> bool:
    """Returns True if a server could listen on a port."""
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True
