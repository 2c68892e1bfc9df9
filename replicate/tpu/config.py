"""RunConfig with a TPUConfig: settings of a TPUEstimator's runs.

Owns the settings of TPUs, which are checked, kept for the program that reads them, and have no
effect. `replicate.estimator.run_config` owns all other settings.
"""

import dataclasses
import operator
import re
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from replicate.errors import ArgumentTypeError
from replicate.estimator import run_config
from replicate.estimator.cluster_config import ClusterConfig, cluster_config_from_environment
from replicate.roles import TaskType
from replicate.tpu.resolver import LOCAL, TPUClusterResolver

_Self = TypeVar("_Self", bound="RunConfig")
_SECONDS = re.compile(r"[1-9][0-9]*[smh]")
_RESOLVERS = (TPUClusterResolver, tf.distribute.cluster_resolver.TPUClusterResolver)


class InputPipelineConfig:
    """Ways of calling input_fn for the cores of a TPU; none has an effect without one.

    Attributes:
      PER_SHARD_V1: Once for each core.
      PER_HOST_V1: Once for each host.
      PER_HOST_V2: Once for each host, with a batch for each core.
      BROADCAST: Once, for all hosts.
      SLICED: Once, with the batch cut for the cores.
    """

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class _Fields(NamedTuple):
    """The fields of TPUConfig, unchecked."""

    iterations_per_loop: int | str
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: int
    tpu_job_name: str | None
    initial_infeed_sleep_secs: int | None
    input_partition_dims: Any
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int
    experimental_allow_per_host_v2_parallel_get_next: bool
    experimental_feed_hook: Any


class TPUConfig(_Fields):
    """Settings of a TPU. They are kept for the program that reads them, and have no effect.

    Attributes:
      iterations_per_loop: Steps of a TPU between two returns to the host, ≥ 1, or a time such as
        "120s", "5m" or "1h". Without a TPU, hooks and checkpoints see each step.
      num_shards: Cores that share a batch, ≥ 1, or None.
      num_cores_per_replica: Cores of one copy of the model, or None.
      per_host_input_for_training: One of `InputPipelineConfig`. True becomes PER_HOST_V1, False
        PER_SHARD_V1.
      tpu_job_name: Name of the TPU's job, or None.
      initial_infeed_sleep_secs: Pause before the first input, or None.
      input_partition_dims: Ways to cut input for the cores of a replica, or None.
      eval_training_input_configuration: One of `InputPipelineConfig`.
      experimental_host_call_every_n_steps: Steps between two host calls on a TPU.
      experimental_allow_per_host_v2_parallel_get_next: True to allow parallel input on a TPU.
      experimental_feed_hook: Class of a hook that feeds a TPU, or None.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int | str = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: bool | int = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: int | None = None,
        input_partition_dims: Any = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
        experimental_allow_per_host_v2_parallel_get_next: bool = False,
        experimental_feed_hook: Any = None,
    ) -> "TPUConfig":
        """Checks the counts and keeps all settings.

        Raises:
          ValueError: iterations_per_loop is neither a positive number nor a time, or num_shards is
            not positive.
        """
        if not _is_loop(iterations_per_loop):
            raise ValueError(
                "TPUConfig: iterations_per_loop must be a whole number >= 1, or a time such as "
                f'"120s", "5m" or "1h", got {iterations_per_loop!r}. Correct it.'
            )
        if num_shards is not None and not _is_positive(num_shards):
            raise ValueError(
                f"TPUConfig: num_shards must be a whole number >= 1 or None, got {num_shards!r}. "
                "Correct it."
            )
        per_host = {True: InputPipelineConfig.PER_HOST_V1, False: InputPipelineConfig.PER_SHARD_V1}
        if isinstance(per_host_input_for_training, bool):
            per_host_input_for_training = per_host[per_host_input_for_training]
        return super().__new__(
            cls,
            iterations_per_loop,
            num_shards,
            num_cores_per_replica,
            per_host_input_for_training,
            tpu_job_name,
            initial_infeed_sleep_secs,
            input_partition_dims,
            eval_training_input_configuration,
            experimental_host_call_every_n_steps,
            experimental_allow_per_host_v2_parallel_get_next,
            experimental_feed_hook,
        )


class RunConfig(run_config.RunConfig):
    """`replicate.RunConfig` with a TPUConfig and the addresses of servers.

    Attributes:
      tpu_config: A `TPUConfig`.
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **settings: Any,
    ):
        """Checks and keeps every setting.

        Args:
          tpu_config: Settings of a TPU, None for the defaults.
          evaluation_master: Address of the server that runs evaluations. None: that of `master`;
            "" or "local": this process.
          master: Address of the server that runs the training session. None, "" or "local": this
            process, or the cluster's server.
          cluster: A TPUClusterResolver, which has no effect; a ClusterConfig; or None to read
            TF_CONFIG.
          **settings: Settings of `replicate.RunConfig`, by name.

        Raises:
          ValueError: A setting is out of range, or both master and cluster are given.
          ClusterConfigError: TF_CONFIG is wrong.
          TypeError: A setting is of the wrong kind or unknown.
        """
        if master is not None and cluster is not None:
            raise ValueError(
                f"RunConfig: both master={master!r} and cluster={cluster!r} are given, and both "
                "name the server of the session. Leave one of them out."
            )
        place = _with_masters(_cluster_config(cluster), master, evaluation_master)
        super().__init__(cluster=place, **settings)
        self._tpu_config = _checked_tpu_config(tpu_config)

    @property
    def tpu_config(self) -> TPUConfig:
        """Settings of a TPU, which have no effect."""
        return self._tpu_config

    def replace(self: _Self, **changes: Any) -> _Self:
        """Returns a copy with some settings changed, checked like a new one.

        Args:
          **changes: Settings by name, `tpu_config` among them.

        Raises:
          ValueError: A setting is out of range or unknown.
          ClusterConfigError: `cluster` is None, and TF_CONFIG is wrong.
          TypeError: A setting is of the wrong kind.
        """
        tpu_config = _checked_tpu_config(changes.pop("tpu_config", self._tpu_config))
        if "cluster" in changes:
            changes["cluster"] = _cluster_config(changes["cluster"])
        other = super().replace(**changes)
        other._tpu_config = tpu_config
        return other

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings by their names, `tpu_config` first."""
        return {"tpu_config": self._tpu_config, **super().as_dict()}


def _checked_tpu_config(tpu_config: Any) -> TPUConfig:
    if tpu_config is None:
        return TPUConfig()
    if not isinstance(tpu_config, TPUConfig):
        raise ArgumentTypeError(
            f"RunConfig: tpu_config must be a replicate.tpu.TPUConfig, got {tpu_config!r}. Pass "
            "None for the defaults."
        )
    return tpu_config


def _cluster_config(cluster: Any) -> ClusterConfig | None:
    """Returns a given ClusterConfig; None, which reads TF_CONFIG, for the resolver of a TPU."""
    if cluster is None or isinstance(cluster, _RESOLVERS):
        return None
    if not isinstance(cluster, ClusterConfig):
        raise ArgumentTypeError(
            f"RunConfig: cluster must be a replicate.tpu.TPUClusterResolver, got {cluster!r}. "
            "Describe a cluster of CPUs or GPUs in TF_CONFIG, and pass None."
        )
    return cluster


def _with_masters(
    cluster: ClusterConfig | None, master: str | None, evaluation_master: str | None
) -> ClusterConfig | None:
    """Returns the cluster with the given addresses; None if there are none and no cluster."""
    for name, address in (("master", master), ("evaluation_master", evaluation_master)):
        if not isinstance(address, str | None):
            raise ArgumentTypeError(
                f'RunConfig: {name} must be the address of a server, "grpc://host:port", or None, '
                f"got {address!r}. Correct it."
            )
    training, evaluation = (None if each in LOCAL else each for each in (master, evaluation_master))
    if training is None and evaluation_master is None:
        return cluster
    cluster = cluster or cluster_config_from_environment()
    if evaluation_master is None:
        is_evaluator = cluster.task_type == TaskType.EVALUATOR
        evaluation = cluster.eval_session_master or (None if is_evaluator else training)
    return dataclasses.replace(
        cluster,
        session_master=training or cluster.session_master,
        eval_session_master=evaluation,
    )


def _is_loop(value: Any) -> bool:
    return bool(_SECONDS.fullmatch(value)) if isinstance(value, str) else _is_positive(value)


def _is_positive(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 1
    except TypeError:
        return False
