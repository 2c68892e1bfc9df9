"""The process in which Keras trains, as one of several that train together.

Owns the start of TensorFlow's collectives in eager mode. The one public way to it is the
constructor of `tf.distribute.MultiWorkerMirroredStrategy`, which starts the server of this process
and makes it known to the others; no variable or function of the strategy is used. TensorFlow cannot
stop that server, so a process has one for its life.
"""

from typing import Any, NoReturn, final

import tensorflow as tf

from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.settings import AllReduce
from replicate.errors import ClusterError
from replicate.estimator.cluster.servers import warn_of_open_port
from replicate.estimator.cluster.worker_group import KEYS_PER_CALL, worker_names
from replicate.estimator.run_config import RunConfig
from replicate.keras.watch import Watch
from replicate.roles import TaskType


@final
class Process:
    """This process among those that train together.

    Attributes:
      names: Names of the processes with their addresses, by rank; the chief has rank 0. Empty for a
        process on its own.
      rank: Number of this process.
      size: Number of processes.
      watch: Watch over the other processes.
    """

    def __init__(self, settings: AllReduce) -> None:
        """Starts the server of this process, and waits for those of all others.

        Args:
          settings: Settings of the sums.

        Raises:
          ClusterConfigError: TF_CONFIG is wrong.
          ClusterError: The port of the server is in use.
          ValueError: The task trains nothing, or TensorFlow has computed something before.
        """
        config = RunConfig(train_distribute=settings)
        self._settings = settings
        self._keys = 0
        self.rank = config.global_id_in_cluster or 0
        self.size = config.num_worker_replicas or 1
        self.names = tuple(worker_names(config)) if self.size > 1 else ()
        _check_task(config)
        self.watch = Watch(config, settings.timeout_secs)
        if self.size > 1:
            self._strategy = _connected(config)
            self.watch.start()

    @property
    def is_chief(self) -> bool:
        """True for the process that saves, and whose values the others take over."""
        return self.rank == 0

    def take_keys(self) -> int:
        """Returns the first key of collectives that no other function of this process uses.

        All processes take keys in the same order.
        """
        self._keys += KEYS_PER_CALL
        return self._keys

    def group(self, first_key: int) -> WorkerGroup:
        """Returns the processes, for a function that is being traced.

        A function that is traced again, for batches of another size, uses the same keys.

        Args:
          first_key: As `take_keys` has returned it for this function.
        """
        return WorkerGroup(self.names, self.rank, self._settings, first_key)


_PROCESS: list[Process] = []
"""This process, once it has begun: what TensorFlow keeps for its life."""


def init(settings: AllReduce | None = None) -> None:
    """Starts the server of this process, and waits until all others have started theirs.

    Call it at the beginning of the program, before TensorFlow computes anything, such as the
    initial weights of a model. Without TF_CONFIG nothing is started.

    Args:
      settings: Settings of the sums. `check_every` and `evaluates` have no meaning here.

    Raises:
      ClusterConfigError: TF_CONFIG is wrong.
      ClusterError: The port of the server is in use.
      ValueError: It was called before, TensorFlow has computed something before, or TF_CONFIG gives
        this process a task that trains nothing.
    """
    if _PROCESS:
        raise ValueError(
            "replicate.keras.init() was called twice, or after DistributedOptimizer or Workers, "
            "which call it. Call it once, at the beginning of the program."
        )
    _PROCESS.append(Process(settings or AllReduce()))


def current() -> Process:
    """Returns this process, after `init` with default settings if it was not called yet."""
    if not _PROCESS:
        init()
    return _PROCESS[0]


def rank() -> int:
    """Returns the number of this process, 0 for the chief and for a process on its own."""
    return current().rank


def size() -> int:
    """Returns the number of processes that train together."""
    return current().size


def _check_task(config: RunConfig) -> None:
    if config.num_ps_replicas or config.task_type in (TaskType.PS, TaskType.EVALUATOR):
        raise ValueError(
            f"replicate.keras trains on equal processes, and TF_CONFIG gives this one the task "
            f"{config.task_type} {config.task_id} in a cluster with the jobs "
            f"{sorted(config.cluster.jobs)}. Accepted are a chief and workers."
        )


def _connected(config: RunConfig) -> Any:
    """Returns the strategy whose constructor starts the server and waits for the others."""
    own = f"{config.task_type} {config.task_id}"
    address = config.cluster.jobs[config.task_type][config.task_id]
    warn_of_open_port(config)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        config.cluster_spec, task_type=config.task_type, task_id=config.task_id, rpc_layer="grpc"
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except (RuntimeError, tf.errors.OpError) as error:
        _raise_start(own, address, error)


def _raise_start(own: str, address: str, error: Exception) -> NoReturn:
    """Raises the error about a server that could not be started."""
    if "program startup" in str(error):
        raise ValueError(
            "Cannot start the server of this process: TensorFlow has computed something before, "
            "such as the initial weights of a model. Call replicate.keras.init() at the beginning "
            "of the program, after the imports."
        ) from error
    raise ClusterError(
        f"Cannot start the server of {own} at {address!r}, as TF_CONFIG gives it: {error}. End the "
        "process that holds the port, or choose another one."
    ) from error
