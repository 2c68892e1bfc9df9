"""Sessions of a cluster: devices of operations, session options, and the wait for the chief.

Owns everything that training in a cluster needs in addition to training in one process. The chief
initialises the variables (`session.py`); a worker waits here until that is done. It checks every
second at least, and connects only to the parameter servers, so that no worker waits for another
worker.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from model_deploy.devices import completed
from model_deploy.local_variables import current_task, local_variables_on
from replicate._types import Graph
from replicate.errors import ClusterError
from replicate.estimator.cluster.brief_session import own_device
from replicate.estimator.cluster.servers import (
    WaitCancelled,
    poll_secs,
    wait_for_parameter_servers,
)
from replicate.estimator.cluster_config import TaskType
from replicate.estimator.keras_names import Scope
from replicate.estimator.run_config import RunConfig
from replicate.estimator.run_settings import device_filters
from replicate.estimator.session import ServerSession, SilentServerError, complete_config

v1 = tf.compat.v1

POLL_SECS = 1.0
"""Seconds between two checks that the chief has initialised the model, at most."""

_NOT_YET = (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.FailedPreconditionError)


def check_trains(config: RunConfig) -> None:
    """Checks that this process is one that trains.

    Raises:
      ValueError: It is an evaluator or a parameter server.
    """
    if config.task_type in (TaskType.EVALUATOR, TaskType.PS):
        raise ValueError(
            f"Cannot train: TF_CONFIG makes this process {config.task_type} {config.task_id}, and "
            f"only {TaskType.CHIEF}, {TaskType.MASTER} and {TaskType.WORKER} train. Call "
            "replicate.train_and_evaluate, which does what each task is for, or change the task."
        )


def training_device(config: RunConfig) -> Callable[[Any], str] | None:
    """Returns the device function of a training graph: the user's, or that of the cluster."""
    if config.device_fn is not None or not config.num_ps_replicas:
        return config.device_fn
    return v1.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=own_device(config),
        cluster=config.cluster_spec,
    )


@contextlib.contextmanager
def training_scope(config: RunConfig) -> Iterator[Scope]:
    """Builds a training graph inside: operations go where `training_device` says.

    Local variables stay on the task to which the device function assigns operations without state.
    So do operations that the model has assigned to that task.

    Yields:
      A function that makes the same context again, for another thread.
    """
    device_fn = training_device(config)
    if device_fn is None:
        yield contextlib.nullcontext
        return
    with v1.device(device_fn):
        task = current_task()
    place = _staying_on(task, device_fn) if task else device_fn

    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        with v1.device(place), local_variables_on(task):
            yield

    with scope():
        yield scope


def _staying_on(task: str, device_fn: Callable[[Any], Any]) -> Callable[[Any], str]:
    """Returns a device function that keeps the operations of a task on the task.

    Args:
      task: Job and task.
      device_fn: Device of all other operations. It may ignore the device that an operation has.
    """

    def place(operation: Any) -> str:
        own, placed = operation.device or "", device_fn(operation) or ""
        if isinstance(placed, tf.DeviceSpec | v1.DeviceSpec):
            placed = placed.to_string()
        return completed(own, placed) if f"{own}/".startswith(f"{task}/") else str(placed)

    return place


def session_options(config: RunConfig) -> Any:
    """Returns the session options of a training run; in a cluster, with its device filters."""
    options = complete_config(config.session_config)
    in_cluster = config.cluster.target is None and config.cluster_spec.jobs
    if in_cluster and config.master and not options.device_filters:
        options.device_filters.extend(device_filters(config.cluster))
    return options


class WaitingSessionCreator(v1.train.SessionCreator):
    """Creator of sessions that start when the chief has initialised the model."""

    def __init__(
        self,
        scaffold: v1.train.Scaffold,
        config: RunConfig,
        should_cancel: Callable[[], bool] = bool,
        show_start: Callable[[str], None] | None = None,
    ):
        """Stores the parts of a session.

        Args:
          scaffold: Initialisers and checks of the default graph.
          config: Settings of this process.
          should_cancel: Called during the wait; True cancels it.
          show_start: Called with a text that says which process the wait is for.
        """
        self._graph: Graph = v1.get_default_graph()
        self._scaffold = scaffold
        self._config = config
        self._should_cancel = should_cancel
        self._show_start = show_start

    def create_session(self) -> v1.Session:
        """Returns a session that is ready to train.

        Raises:
          ClusterError: The chief has not initialised the model in time.
          SilentServerError: A server that accepts connections did not answer the session.
          WaitCancelled: `should_cancel` returned True.
        """
        limit = self._config.session_creation_timeout_secs
        started = time.monotonic()
        if self._show_start is not None:
            self._show_start(f"waiting for {_name_of_chief(self._config)}")
        with self._graph.as_default():
            self._scaffold.finalize()
            while (session := self._try()) is None:
                if self._should_cancel():
                    raise WaitCancelled("No longer waiting for the chief.")
                waited = time.monotonic() - started
                if waited > limit:
                    raise ClusterError(
                        f"{self._config.task_type} {self._config.task_id} has waited {limit:g} "
                        f"seconds for {_name_of_chief(self._config)} to initialise the model. "
                        "Start the chief, or look for its error."
                    )
                time.sleep(poll_secs(waited, POLL_SECS))
        return session

    def _try(self) -> v1.Session | None:
        wait_for_parameter_servers(self._config, self._should_cancel)
        options = session_options(self._config)
        session = ServerSession(self._config.master, graph=self._graph, config=options)
        try:
            if self._is_ready(session):
                return session
        except SilentServerError:
            session.close()
            raise
        except _NOT_YET:
            pass
        except BaseException:
            session.close()
            raise
        session.close()
        return None

    def _is_ready(self, session: ServerSession) -> bool:
        scaffold = self._scaffold
        if session.first_run(scaffold.ready_for_local_init_op).size:
            return False
        session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
        return not session.run(scaffold.ready_op).size


def _name_of_chief(config: RunConfig) -> str:
    for job in (TaskType.CHIEF, TaskType.MASTER):
        if job in config.cluster.jobs:
            return f"{job} 0 at {config.cluster.jobs[job][0]!r}"
    return "the chief"
