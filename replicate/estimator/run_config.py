"""RunConfig: settings of an Estimator's runs, as one value whose settings do not change.

Owns the settings of a run that do not concern the model: directories, intervals of saving and
logging, seeds, session options, and the task of this process in a cluster. `run_settings.py` checks
them when a RunConfig is made. The runtime reads settings from nowhere else.
"""

import copy
import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, TypeVar

import tensorflow as tf

from replicate.all_reduce.settings import AllReduce
from replicate.estimator.cluster_config import ClusterConfig, cluster_config_from_environment
from replicate.estimator.log import log
from replicate.estimator.run_settings import (
    CHECKS,
    NOT_GIVEN,
    changed_intervals,
    checked_settings,
    checkpoint_intervals,
    default_session_config,
)
from replicate.estimator.strategies import all_reduce_of

v1 = tf.compat.v1

_T = TypeVar("_T")
_Self = TypeVar("_Self", bound="RunConfig")

_PLACE = (
    "cluster_spec",
    "task_type",
    "task_id",
    "global_id_in_cluster",
    "master",
    "evaluation_master",
    "is_chief",
    "num_ps_replicas",
    "num_worker_replicas",
    "service",
)
"""Attributes that follow from the cluster."""


class _ReadOnly(Generic[_T]):
    """An attribute of a RunConfig that is read from the instance's `_name` and cannot be set."""

    def __init__(self, doc: str | None = None):
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, config: Any, owner: type | None = None) -> _T:
        if config is None:
            return self  # type: ignore[return-value]  # Tools that look at the class find this.
        found: _T = getattr(config, f"_{self._name}")
        return found

    def __set__(self, config: Any, value: Any) -> None:
        _refuse_change(self._name)


class RunConfig:
    """Settings of an Estimator's runs.

    Its settings cannot be changed; `replace` makes a RunConfig that differs. TF_CONFIG is read
    once, when the value is made, and kept by `replace`. A program may set attributes of its own,
    such as `config.hparams`, which copies and `Estimator.config` keep. A subclass may also have a
    constructor and properties of its own: a property takes the place of the setting of that name,
    whose own value is in the attribute with an underscore in front, as in `self._model_dir`.

    Attributes:
      model_dir: Directory of checkpoints and event files, made when absent. Paths become strings.
      tf_random_seed: Graph-level seed, None for an unpredictable one.
      save_summary_steps: Steps between two summaries, None or 0 for no summaries.
      save_checkpoints_steps: Steps between two checkpoints. Excludes `save_checkpoints_secs`.
      save_checkpoints_secs: Seconds between two checkpoints; 600 if no interval is given. The first
        and the last step are always saved. If both intervals are None or 0, because at least one
        was given as None or 0, nothing is saved.
      session_config: A ConfigProto. Without one, a task in a cluster has options with device
        filters; otherwise this is None, and an Estimator fills in options. Both allow soft
        placement, and let TensorFlow's optimizations pass over a graph once, not twice.
      keep_checkpoint_max: Checkpoints kept in the directory, 0 or None to keep all.
      keep_checkpoint_every_n_hours: One checkpoint in that many hours is kept for ever.
      log_step_count_steps: Steps between two `global_step/sec` events, each with a line of
        metrics.jsonl; None for neither.
      train_distribute: An `AllReduce` lets the workers of a cluster without parameter servers add
        up their gradients, as does a MultiWorkerMirroredStrategy. Or a strategy of tf.distribute,
        which names the devices that the model trains on: a MirroredStrategy, OneDeviceStrategy,
        CentralStorageStrategy or ParameterServerStrategy. Each device takes a batch of its own from
        the input, and the model learns by the mean of the devices' gradients. None trains on one
        device.
      eval_distribute: A strategy for evaluation.
      experimental_distribute: A `tf.contrib.distribute.DistributeConfig` with these two settings.
      device_fn: Function from an operation to its device, applied to the whole graph of a training
        run. None puts variables on the parameter servers of the cluster, if it has any. Local
        variables stay where it puts operations without state.
      protocol: Of the cluster's servers, None for "grpc".
      experimental_max_worker_delay_secs: If given, worker i starts to train after 5 · (i + 1)
        seconds, but after this many at most. None starts all workers at once.
      session_creation_timeout_secs: Seconds that a process of a cluster waits, at the start and
        after a session was lost, for the parameter servers to answer and for the chief to
        initialise the model. None waits for ever and is stored as infinity.
      checkpoint_save_graph_def: If True, the graph is written as graph.pbtxt, and as one .meta file
        per checkpoint, both without the data of the input pipeline.
      save_input_position: If True, a run continues an interrupted input. Buffers of up to 4 MB are
        saved beside the checkpoint; with larger buffers, the resumed run reads the earlier batches
        again. If False, a resumed run starts its input from the beginning.
      continue_input: If True, each train call continues the input of the call before. By default
        only an interrupted call is continued, and a call after a complete one starts its input
        from the beginning. An input without further elements always starts from the beginning.
      profile_steps: The first and the last global step whose trace is written to model_dir for
        TensorBoard's profiler. As many steps after them are measured, and the ten costliest
        operations are printed to standard error. None for neither.
      progress: "bar" draws a progress bar, "log" prints a line per interval, "auto" takes the bar
        when standard error is a terminal and lines otherwise, "off" shows nothing. The chief prints
        devices and model table first.
      step_timeout_secs: Seconds without a step after which training stops, if a process that takes
        part in the step does not answer, or a connection to a parameter server is dead. None stands
        for `session_creation_timeout_secs`.
      max_restarts: Number of sessions that may be lost in a row without a new highest step.
        Two of these sessions begin 1, 2, 4 ... 60 seconds apart at least.
      steal_model_dir: If True, a training run takes the model directory over from another training
        job that writes there, even a living one. That job saves nothing more, and stops.
      on_save_error: "stop" ends training with a CheckpointError if a checkpoint cannot be written.
        "retry" logs a warning, trains on, and saves at the next interval. If the last save of a run
        fails, at its end or after a signal, both raise the error. Older checkpoints stay.
      cluster: The cluster and the task of this process. None reads TF_CONFIG.
    """

    model_dir = _ReadOnly[str | None]()
    tf_random_seed = _ReadOnly[int | None]()
    save_summary_steps = _ReadOnly[int | None]()
    save_checkpoints_steps = _ReadOnly[int | None]()
    save_checkpoints_secs = _ReadOnly[float | None]()
    session_config = _ReadOnly[Any]()
    keep_checkpoint_max = _ReadOnly[int | None]()
    keep_checkpoint_every_n_hours = _ReadOnly[float]()
    log_step_count_steps = _ReadOnly[int | None]()
    train_distribute = _ReadOnly[Any]()
    device_fn = _ReadOnly[Callable[[Any], str] | None]()
    protocol = _ReadOnly[str | None]()
    eval_distribute = _ReadOnly[Any]()
    experimental_distribute = _ReadOnly[Any]()
    experimental_max_worker_delay_secs = _ReadOnly[int | None]()
    session_creation_timeout_secs = _ReadOnly[float]()
    checkpoint_save_graph_def = _ReadOnly[bool]()
    save_input_position = _ReadOnly[bool]()
    continue_input = _ReadOnly[bool]()
    profile_steps = _ReadOnly[tuple[int, int] | None]()
    progress = _ReadOnly[str]()
    step_timeout_secs = _ReadOnly[float | None]()
    max_restarts = _ReadOnly[int]()
    steal_model_dir = _ReadOnly[bool]()
    on_save_error = _ReadOnly[str]()
    cluster = _ReadOnly[ClusterConfig]()

    cluster_spec = _ReadOnly[v1.train.ClusterSpec](
        "The training cluster; empty for a process on its own and for the evaluator."
    )
    task_type = _ReadOnly[str]("Role of this process in the cluster, one of `TaskType`.")
    task_id = _ReadOnly[int]("Index of this process among those of its type.")
    global_id_in_cluster = _ReadOnly[int | None](
        "Number of this process in the training cluster, None for the evaluator."
    )
    master = _ReadOnly[str]("Target of the training session.")
    evaluation_master = _ReadOnly[str]("Target of an evaluation session.")
    is_chief = _ReadOnly[bool]("True if this process writes the checkpoints.")
    num_ps_replicas = _ReadOnly[int]("Parameter servers of the cluster.")
    num_worker_replicas = _ReadOnly[int]("Processes of the cluster that train, the chief included.")
    service = _ReadOnly[Mapping[str, Any] | None]('Value of "service" in TF_CONFIG.')

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = 1,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = NOT_GIVEN,
        save_checkpoints_secs: float | None = NOT_GIVEN,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Any], str] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float | None = 7200,
        checkpoint_save_graph_def: bool = True,
        *,
        save_input_position: bool = True,
        continue_input: bool = False,
        profile_steps: tuple[int, int] | None = None,
        progress: str = "auto",
        step_timeout_secs: float | None = None,
        max_restarts: int = 10,
        steal_model_dir: bool = False,
        on_save_error: str = "stop",
        cluster: ClusterConfig | None = None,
    ):
        """Checks and keeps every setting; see the attributes of the class.

        Raises:
          ValueError: A setting is out of range, both checkpoint intervals are given, or a strategy
            of tf.distribute is not supported.
          ClusterConfigError: TF_CONFIG is wrong.
          TypeError: model_dir, session_config, device_fn or cluster is of the wrong kind.
        """
        given = {name: value for name, value in locals().items() if name in CHECKS}
        if cluster is None and all_reduce_of(train_distribute) is not None:
            given["cluster"] = cluster_config_from_environment(first_worker_is_chief=True)
        given.update(checkpoint_intervals(save_checkpoints_steps, save_checkpoints_secs))
        settings = checked_settings(given)
        if session_config is None:
            settings["session_config"] = default_session_config(settings["cluster"])
        self._keep(settings)

    def replace(self: _Self, **changes: Any) -> _Self:
        """Returns a copy with some settings changed, checked like a new one.

        The copy is made without the constructor, so that a subclass keeps its attributes. A given
        checkpoint interval replaces the other one.

        Raises:
          ValueError: A setting is out of range or unknown.
          ClusterConfigError: `cluster` is None, and TF_CONFIG is wrong.
          TypeError: A setting is of the wrong kind.
        """
        unknown = sorted(set(changes) - set(CHECKS))
        if unknown:
            raise ValueError(
                f"Cannot replace {unknown} in a RunConfig: its settings are {list(CHECKS)}. "
                "Correct the name."
            )
        checked = checked_settings(changed_intervals(changes))
        if "cluster" in checked and "session_config" not in checked:
            own = vars(self)
            if own["_session_config"] == default_session_config(own["_cluster"]):
                checked["session_config"] = default_session_config(checked["cluster"])
        other = copy.copy(self)
        other._keep(checked)
        return other

    @property
    def all_reduce(self) -> AllReduce | None:
        """Settings of the sums over workers; None if this process sums with no other."""
        cluster: ClusterConfig = vars(self)["_cluster"]
        settings = all_reduce_of(self.train_distribute)
        is_one_of_many = cluster.role.trains and cluster.num_worker_replicas > 1
        return settings if is_one_of_many else None

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings by their names."""
        return {name: getattr(self, name) for name in CHECKS}

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute of the program's own, and refuses to change a setting."""
        if type(self) is RunConfig:
            _check_own(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute of the program's own, and refuses to delete a setting."""
        if type(self) is RunConfig:
            _check_own(name)
        super().__delattr__(name)

    def __eq__(self, other: object) -> bool:
        """Returns True if the other is of the same class and all attributes are equal."""
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Returns a hash of some of the settings."""
        return hash((type(self), vars(self)["_model_dir"], vars(self)["_tf_random_seed"]))

    def __repr__(self) -> str:
        """Returns the settings as they are given to the constructor."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({settings})"

    def _keep(self, settings: Mapping[str, Any]) -> None:
        """Stores checked settings in the instance, and the attributes that follow from them."""
        own = vars(self)
        own.update({f"_{name}": value for name, value in settings.items()})
        cluster: ClusterConfig = own["_cluster"]
        if "cluster" in settings:
            own.update({f"_{name}": getattr(cluster, name) for name in _PLACE})
        if all_reduce_of(own["_train_distribute"]) is not None and cluster.num_ps_replicas:
            raise ValueError(
                f"RunConfig: train_distribute={own['_train_distribute']!r} needs a cluster without "
                f"parameter servers, and TF_CONFIG lists {cluster.num_ps_replicas}. Leave one of "
                "the two out."
            )
        asked, model_dir = cluster.model_dir, own["_model_dir"]
        if asked is not None and model_dir not in (None, asked):
            raise ValueError(
                f"RunConfig: model_dir is {model_dir!r}, but TF_CONFIG asks for {asked!r}. Give "
                "one of them, or the same twice."
            )
        if asked is not None:
            own["_model_dir"] = asked
        if own["_continue_input"] and not own["_save_input_position"]:
            raise ValueError(
                "RunConfig: continue_input=True needs the position of the input, got "
                "save_input_position=False. Leave one of them out."
            )


def _check_own(name: str) -> None:
    """Refuses a setting as the name of a program's own attribute, and warns of a similar name.

    Raises:
      FrozenInstanceError: It is the name of a setting, or of the attribute that holds one.
    """
    settings = [*CHECKS, *_PLACE]
    if name.removeprefix("_") in settings:
        _refuse_change(name.removeprefix("_"))
    alike = difflib.get_close_matches(name, settings, 1, cutoff=0.9)
    if alike:
        log.warning(
            "RunConfig has no setting %r: the attribute has no effect on runs. For the setting %s, "
            "write config = config.replace(%s=...).",
            name,
            alike[0],
            alike[0],
        )


def _refuse_change(name: str) -> NoReturn:
    advice = f"Make a new one: config = config.replace({name}=...)."
    if name in _PLACE:
        advice = f"{name} follows from the cluster: config = config.replace(cluster=...)."
    raise dataclasses.FrozenInstanceError(f"Cannot set {name!r} in a RunConfig. {advice}")
