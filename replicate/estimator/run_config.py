"""RunConfig: how an Estimator runs, as one frozen value.

Owns the settings that are about running and not about the model: where files go, how often things
are saved and logged, seeds, session options, and the place of this process in a cluster. It is
checked once, when it is made, and handed down; nothing reads settings from anywhere else.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate.estimator.cluster import ClusterConfig, cluster_config_from_environment

v1 = tf.compat.v1

PROGRESS_MODES = ("auto", "bar", "log", "off")
_DEFAULT_SAVE_SECS = 600


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of an Estimator's runs.

    TF_CONFIG is read once, when the value is made, and kept by `replace`.

    Attributes:
      model_dir: Directory of checkpoints and event files, made when absent.
      tf_random_seed: Graph-level seed, None for an unpredictable one.
      save_summary_steps: Steps between two summaries, None for no summaries.
      save_checkpoints_steps: Steps between two checkpoints. Excludes `save_checkpoints_secs`.
      save_checkpoints_secs: Seconds between two checkpoints; 600 when neither is given. The first
        and the last step are saved whatever this says.
      session_config: A ConfigProto, or None for one that allows soft placement.
      keep_checkpoint_max: Checkpoints kept in the directory, 0 or None to keep all.
      keep_checkpoint_every_n_hours: One checkpoint in that many hours is kept for ever.
      log_step_count_steps: Steps between two `global_step/sec` events, each with a line of
        metrics.jsonl; None for neither.
      save_input_position: Whether an interrupted run goes on in the middle of its input. Buffers
        of up to 4 MB are saved beside the checkpoint; of others the run reads the batches again
        that it had read. With False it begins its input anew.
      continue_input: Whether each train call goes on reading where the last one stopped. By default
        only interrupted calls are continued, and a call after one that came to its end begins its
        input anew. An input that has no more elements begins anew in either case.
      profile_steps: The first and the last global step whose trace is written to model_dir for
        TensorBoard's profiler. As many steps after them are measured, and the ten costliest
        operations are printed to standard error. None for neither.
      progress: "bar" draws a progress bar, "log" prints a line per interval, "auto" takes the bar
        when standard error is a terminal and lines otherwise, "off" shows nothing.
      device_fn: Function from an operation to its device, applied to the whole graph of a training
        run. None puts variables on the parameter servers of the cluster, if it has any.
      protocol: Of the cluster's servers, None for "grpc".
      session_creation_timeout_secs: Seconds that a process waits for others of its cluster, at the
        start and after a session was lost: for the parameter servers to be there, and for the chief
        to have initialised the model.
      step_timeout_secs: Seconds that may pass without a step while a process that takes part in it
        does not answer. None stands for `session_creation_timeout_secs`.
      max_restarts: Sessions that may be lost in a row, each without a step beyond those before,
        until training gives up. Before a new one it waits 1, 2, 4 ... 60 seconds.
      checkpoint_save_graph_def: Whether the graph is written too, as graph.pbtxt and as one *.meta
        file per checkpoint.
      cluster: The cluster and the place of this process in it. None reads TF_CONFIG.
    """

    model_dir: str | None = None
    tf_random_seed: int | None = 1
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: float | None = None
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    _: dataclasses.KW_ONLY
    save_input_position: bool = True
    continue_input: bool = False
    profile_steps: tuple[int, int] | None = None
    progress: str = "auto"
    device_fn: Callable[[Any], str] | None = None
    protocol: str | None = None
    session_creation_timeout_secs: float = 7200
    step_timeout_secs: float | None = None
    max_restarts: int = 10
    checkpoint_save_graph_def: bool = False
    cluster: ClusterConfig = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        """Checks every setting.

        Raises:
          ValueError: A setting is out of range, or both checkpoint intervals are given.
          ClusterConfigError: TF_CONFIG is wrong.
          TypeError: session_config, device_fn or cluster is of the wrong kind.
        """
        self._take_cluster()
        if self.model_dir is not None and not str(self.model_dir):
            raise ValueError(
                'RunConfig: model_dir is "". Give a directory, or None for a temporary one.'
            )
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError(
                "RunConfig: checkpoints are saved by steps or by seconds, got both "
                f"save_checkpoints_steps={self.save_checkpoints_steps!r} and "
                f"save_checkpoints_secs={self.save_checkpoints_secs!r}. Give one of them."
            )
        if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
            object.__setattr__(self, "save_checkpoints_secs", _DEFAULT_SAVE_SECS)
        for name in ("save_summary_steps", "save_checkpoints_steps", "log_step_count_steps"):
            self._check_at_least(name, 1)
        self._check_at_least("keep_checkpoint_max", 0)
        self._check_positive("save_checkpoints_secs")
        self._check_positive("keep_checkpoint_every_n_hours")
        self._check_positive("session_creation_timeout_secs")
        self._check_positive("step_timeout_secs")
        if self.max_restarts is None:
            raise ValueError(
                "RunConfig: max_restarts must be a whole number >= 0, got None. Give a large one "
                "for a program that shall hardly ever give up."
            )
        self._check_at_least("max_restarts", 0)
        self._check_profile_steps()
        if self.continue_input and not self.save_input_position:
            raise ValueError(
                "RunConfig: continue_input=True needs the position of the input, got "
                "save_input_position=False. Leave one of them out."
            )
        if self.progress not in PROGRESS_MODES:
            raise ValueError(
                f"RunConfig: progress must be one of {list(PROGRESS_MODES)}, got "
                f"{self.progress!r}. Correct it."
            )
        if self.session_config is not None and not isinstance(self.session_config, v1.ConfigProto):
            raise TypeError(
                "RunConfig: session_config must be a tf.compat.v1.ConfigProto, got "
                f"{self.session_config!r}. Pass None for the default."
            )
        if self.device_fn is not None and not callable(self.device_fn):
            raise TypeError(
                "RunConfig: device_fn must be a function from an operation to its device, got "
                f"{self.device_fn!r}. Pass None for the default."
            )

    @property
    def cluster_spec(self) -> v1.train.ClusterSpec:
        """The training cluster; empty for a process on its own and for the evaluator."""
        return self.cluster.cluster_spec

    @property
    def task_type(self) -> str:
        """What this process does in the cluster, one of `TaskType`."""
        return self.cluster.task_type

    @property
    def task_id(self) -> int:
        """Index of this process among those of its type."""
        return self.cluster.task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """Number of this process in the training cluster, None for the evaluator."""
        return self.cluster.global_id_in_cluster

    @property
    def master(self) -> str:
        """Target of the training session."""
        return self.cluster.master

    @property
    def evaluation_master(self) -> str:
        """Target of an evaluation session."""
        return self.cluster.evaluation_master

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the checkpoints."""
        return self.cluster.is_chief

    @property
    def num_ps_replicas(self) -> int:
        """Parameter servers of the cluster."""
        return self.cluster.num_ps_replicas

    @property
    def num_worker_replicas(self) -> int:
        """Processes of the cluster that train, the chief included."""
        return self.cluster.num_worker_replicas

    @property
    def service(self) -> Mapping[str, Any] | None:
        """What TF_CONFIG holds under "service"."""
        return self.cluster.service

    def replace(self, **changes: Any) -> "RunConfig":
        """Returns a copy with some settings changed, checked like a new one.

        Giving one of the two checkpoint intervals takes the place of the other.

        Raises:
          ValueError: A setting is out of range or unknown.
        """
        known = [field.name for field in dataclasses.fields(self)]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise ValueError(
                f"Cannot replace {unknown} in a RunConfig: its settings are {known}. "
                "Correct the name."
            )
        intervals = ("save_checkpoints_steps", "save_checkpoints_secs")
        if any(changes.get(name) is not None for name in intervals):
            changes = {**dict.fromkeys(intervals), **changes}
        return dataclasses.replace(self, **changes)

    def _take_cluster(self) -> None:
        """Reads TF_CONFIG if no cluster is given, and takes the model_dir that it asks for."""
        if self.cluster is None:
            object.__setattr__(self, "cluster", cluster_config_from_environment())
        if not isinstance(self.cluster, ClusterConfig):
            raise TypeError(
                f"RunConfig: cluster must be a ClusterConfig, got {self.cluster!r}. Pass None to "
                "read TF_CONFIG."
            )
        asked = self.cluster.model_dir
        if asked is not None and self.model_dir not in (None, asked):
            raise ValueError(
                f"RunConfig: model_dir is {self.model_dir!r}, but TF_CONFIG asks for {asked!r}. "
                "Give one of them, or the same twice."
            )
        if asked is not None:
            object.__setattr__(self, "model_dir", asked)

    def _check_profile_steps(self) -> None:
        steps = self.profile_steps
        if steps is None:
            return
        is_pair = isinstance(steps, (tuple, list)) and [type(step) for step in steps] == [int, int]
        if not is_pair or not 1 <= steps[0] <= steps[1]:
            raise ValueError(
                "RunConfig: profile_steps must be the first and the last step to profile, "
                f"1 <= first <= last, or None, got {steps!r}. For one step, give it twice."
            )
        object.__setattr__(self, "profile_steps", tuple(steps))

    def _check_at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is not None and (not isinstance(value, int) or value < least):
            raise ValueError(
                f"RunConfig: {name} must be a whole number >= {least} or None, got {value!r}. "
                "Correct it."
            )

    def _check_positive(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and not value > 0:
            raise ValueError(
                f"RunConfig: {name} must be greater than 0, got {value!r}. Correct it."
            )
