"""The training loop: from a built model to a trained one in its model directory.

Owns which hooks run beside the model's train_op, in which order, and how the loop ends: the last
step is reached, the input is used up, a signal asks for it, a number is not finite, or the cluster
cannot be mended. It builds no part of the model. `Estimator.train` calls it in the model's graph.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate.errors import TrainingInterrupted
from replicate.estimator.checkpoints.fallback import newest_checkpoint
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.reading import read_variable
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, Restarts
from replicate.estimator.cluster.servers import WaitCancelled, absent_tasks
from replicate.estimator.cluster.sync_replicas import SyncReplicasHook, with_orderly_ends
from replicate.estimator.cluster.waiting_session import WaitingSessionCreator, session_options
from replicate.estimator.cluster.watchdog import Watchdog
from replicate.estimator.cluster_config import TaskType
from replicate.estimator.end_marker import Ending, has_ended
from replicate.estimator.hooks.events import event_hooks, event_writer
from replicate.estimator.hooks.finite import FiniteVariablesListener, require_finite_loss
from replicate.estimator.hooks.graph_files import GraphFiles
from replicate.estimator.hooks.profiling import ProfileHook
from replicate.estimator.hooks.progress import ProgressHook
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.saving import CheckpointHook, build_saver, saves_checkpoints
from replicate.estimator.hooks.stepping import Stepper, StopHook
from replicate.estimator.input_batches import Inputs, batch_size
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.signals import Interruption, interruptions
from replicate.spec import EstimatorSpec
from replicate.step_checks import user_errors

v1 = tf.compat.v1

STOP_GRACE_SECS = 5
"""How long a session waits for its queue threads when it closes."""

_READERS = ("ReadVariableOp", "VarIsInitializedOp", "Identity", "IsVariableInitialized")
"""Types of the operations that read a variable and cannot write to it."""


@dataclasses.dataclass(frozen=True)
class TrainRequest:
    """What one call of `Estimator.train` asks for.

    Attributes:
      hooks: The caller's hooks; they run before all others.
      listeners: The caller's checkpoint listeners.
      steps: Steps to make from where the checkpoint is.
      max_steps: Global step to stop at. Neither of the two: until the input ends.
    """

    hooks: Sequence[Any] = ()
    listeners: Sequence[Any] = ()
    steps: int | None = None
    max_steps: int | None = None


def run_training(
    inputs: Inputs,
    spec: EstimatorSpec,
    config: RunConfig,
    request: TrainRequest,
    ending: Ending | None,
) -> None:
    """Trains the model of the default graph, and leaves its last step in a checkpoint.

    Args:
      inputs: What the model was built on.
      spec: The model.
      config: Of this process.
      request: What the caller asks for.
      ending: The end of training, for a worker to watch; None for the chief, who makes it.

    Raises:
      TrainingInterrupted: SIGINT or SIGTERM arrived; the step reached is saved.
      NonFiniteError: The loss or a variable is not finite; the newest checkpoint is.
      CheckpointError: The checkpoint to continue from cannot be loaded, or none can be written.
      ClusterError: Another process of the cluster is gone, or did not do its part in time.
      ValueError: Steps are asked for, and nothing in the graph increases the global step; or there
        are listeners, and no checkpoints are saved.
    """
    if request.listeners and not saves_checkpoints(config):
        raise ValueError(
            f"Cannot tell {len(request.listeners)} checkpoint listeners of saves: RunConfig has "
            "neither save_checkpoints_steps nor save_checkpoints_secs, so that no checkpoint is "
            "saved. Set one of them; train_and_evaluate in one process needs that. A "
            "CheckpointSaverHook of your own takes its listeners as an argument."
        )
    counts_steps = request.steps is not None or request.max_steps is not None
    if counts_steps and config.is_chief:  # With model averaging only the chief increases it.
        _check_step_moves()
    if config.is_chief:
        _run_chief(inputs, spec, config, request)
    else:
        _run_worker(inputs, spec, config, request, ending)


class _Surroundings:
    """What may end the loop from outside: signals, a cluster that is gone, the end of the chief."""

    def __init__(
        self,
        interruption: Interruption,
        readings: StepReadings,
        config: RunConfig,
        ending: Ending | None = None,
    ):
        self.ending = ending
        self.interruption = interruption
        self.readings = readings
        self.config = config
        self.has_input_ended = False
        self.watchdog = Watchdog(config, self.is_interrupted, self._release)
        self.restarts = Restarts(config, readings)
        self._users: list[Any] = []

    def hooks(self, users: Sequence[Any]) -> list[Any]:
        """Returns the user's hooks, as this loop calls them."""
        self._users = with_orderly_ends(users, self.config.is_chief, self.is_interrupted)
        return self._users

    def is_interrupted(self) -> bool:
        """Whether a signal asks for the end."""
        return self.interruption.signum is not None

    def is_over(self) -> bool:
        """Asked while a session waits for other processes: whether to give up."""
        self.watchdog.beat()
        return self.is_interrupted() or self.watchdog.error is not None or self._has_chief_ended()

    def goes_on(self) -> bool:
        """Whether the next run shall read on where the input of this one stopped."""
        return self.is_interrupted() or (self.config.continue_input and not self.has_input_ended)

    @contextlib.contextmanager
    def noting_end_of_input(self) -> Iterator[None]:
        """Remembers that the input ended, and passes on the error that says so."""
        try:
            yield
        except (tf.errors.OutOfRangeError, StopIteration):
            self.has_input_ended = True
            raise

    def check_step(self) -> None:
        """Looks at a step that was made."""
        self.watchdog.beat()
        require_finite_loss(self.readings)

    def _release(self) -> None:
        """Ends the waiting for other workers."""
        for hook in self._users:
            if isinstance(hook, SyncReplicasHook):
                hook.release()

    def _has_chief_ended(self) -> bool:
        config = self.config
        if self.ending is None:
            return False
        took_part = self.readings.loss is not None
        if self.ending.is_new() or (took_part and has_ended(str(config.model_dir))):
            return True
        is_final = config.num_ps_replicas > 0 and self.ending.is_final()
        return is_final and len(absent_tasks(config, [TaskType.PS])) == config.num_ps_replicas


def _run_chief(
    inputs: Inputs, spec: EstimatorSpec, config: RunConfig, request: TrainRequest
) -> None:
    """Trains, and writes checkpoints and event files."""
    model_dir = str(config.model_dir)
    scaffold = spec.scaffold or v1.train.Scaffold()
    saver = build_saver(scaffold, config)
    creator = RestoringSessionCreator(
        scaffold,
        saver,
        lambda: newest_checkpoint(model_dir),
        session_options(config),
        inputs.position,
        config.master,
        keeps_values=bool(config.cluster.jobs),
    )
    readings = StepReadings(spec.train_op, spec.loss)
    progress = _progress(inputs, readings, config, request)
    writer = event_writer(model_dir)
    graph_files = GraphFiles(
        model_dir,
        saver,
        writer,
        inputs.operations,
        saves_checkpoints(config) and config.checkpoint_save_graph_def,
    )
    profiles = []
    if config.profile_steps is not None:
        profiles.append(ProfileHook(readings, model_dir, config.profile_steps))
    with contextlib.ExitStack() as stack:
        for closed_at_the_end in (writer, progress, *profiles):
            stack.callback(closed_at_the_end.close)
        interruption = stack.enter_context(interruptions())
        around = _Surroundings(interruption, readings, config)
        checkpoints = []
        if saves_checkpoints(config):
            hook = CheckpointHook(
                model_dir,
                saver,
                readings,
                config,
                inputs.position,
                [FiniteVariablesListener(), *request.listeners],
                around.goes_on,
                graph_files,
            )
            checkpoints.append(hook)
        users = [*request.hooks, *spec.training_hooks, *spec.training_chief_hooks]
        hooks = [
            *around.hooks(users),
            *profiles,
            StopHook(readings, request.steps, request.max_steps),
            progress,
            graph_files,
            *event_hooks(writer, scaffold, readings, config),
            *checkpoints,
        ]
        _loop(creator, hooks, around, inputs.position)
    _raise_if_interrupted(interruption, model_dir)


def _run_worker(
    inputs: Inputs,
    spec: EstimatorSpec,
    config: RunConfig,
    request: TrainRequest,
    ending: Ending | None,
) -> None:
    """Trains what the chief of a cluster has initialised, and writes nothing."""
    scaffold = spec.scaffold or v1.train.Scaffold()
    readings = StepReadings(spec.train_op, spec.loss)
    progress = _progress(inputs, readings, config, request)
    with contextlib.closing(progress), interruptions() as interruption:
        around = _Surroundings(interruption, readings, config, ending)
        creator = WaitingSessionCreator(scaffold, config, around.is_over)
        users = [*request.hooks, *spec.training_hooks]
        hooks = [
            *around.hooks(users),
            StopHook(readings, request.steps, request.max_steps),
            progress,
        ]
        _loop(creator, hooks, around)
    _raise_if_interrupted(interruption, str(config.model_dir))


def _loop(
    creator: v1.train.SessionCreator,
    hooks: list[Any],
    around: _Surroundings,
    position: InputPosition | None = None,
) -> None:
    """Makes steps until a hook, the end of the input or something outside stops it."""
    recovering = RecoveringSessionCreator(creator, around.restarts, around.config, around.is_over)
    stepper = Stepper(around.readings, [*hooks, around.watchdog], around.check_step)
    try:
        with (
            user_errors(),
            around.watchdog,
            v1.train.MonitoredSession(recovering, stepper.hooks, STOP_GRACE_SECS) as session,
            around.noting_end_of_input(),
        ):
            stepper.run(session, around.is_interrupted, around.restarts.noting)
    except WaitCancelled as reason:
        log.info("Training ends without a session. %s", reason)
        return
    if around.readings.loss is None and not around.is_interrupted():
        resumed_at = 0 if position is None else position.resumed_at
        log.warning(
            "Training made no step: %s",
            _cause_of_no_step(around, stepper.is_done, resumed_at),
        )


def _cause_of_no_step(around: _Surroundings, is_done: bool, resumed_at: int) -> str:
    """Returns the reason why a call of train ended before its first step."""
    if is_done:
        return f"the model is at step {around.readings.step}, and max_steps is not beyond that."
    if not around.has_input_ended:
        return "a hook asked for the end before the first step."
    if resumed_at:
        return (
            f"an interrupted run had read {resumed_at} batches, and its input has no more. The "
            "next call of train begins its input anew."
        )
    return (
        "the input ended before its first batch. Look at what input_fn returns: an empty file "
        "list, or a batch larger than the data with drop_remainder=True."
    )


def _raise_if_interrupted(interruption: Interruption, model_dir: str) -> None:
    """Tells the caller of a signal that ended training."""
    if interruption.signum is not None:
        saved = newest_checkpoint(model_dir)
        step = 0 if saved is None else int(read_variable(saved, "global_step"))
        raise TrainingInterrupted(interruption.signum, step, saved or "")


def _check_step_moves() -> None:
    """Refuses a graph in which nothing but its initializer can write to the global step."""
    step = v1.train.get_global_step()
    holder = getattr(step, "handle", None)
    holder = step.op.outputs[0] if holder is None else holder
    users = {op for op in holder.consumers() if op.type not in _READERS}
    if users <= {step.initializer}:
        raise ValueError(
            "Cannot train for a number of steps: nothing in the graph of model_fn increases the "
            f"global step, {step.name}, so that training would never end. Pass "
            "global_step=tf.train.get_global_step() to minimize or apply_gradients."
        )


def _progress(
    inputs: Inputs, readings: StepReadings, config: RunConfig, request: TrainRequest
) -> ProgressHook:
    return ProgressHook(
        "train",
        readings,
        batch_size(inputs.features),
        last_step=request.max_steps,
        num_steps=request.steps,
        mode=config.progress,
    )
