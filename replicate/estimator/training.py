"""The training loop: from a built model to a trained one in its model directory.

Owns which hooks run beside the model's train_op, in which order, and how the loop ends: the last
step is reached, the input is used up, a signal asks for it, or a number is not finite. It builds no
part of the model. `Estimator.train` calls it inside the model's graph.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate.errors import user_errors
from replicate.estimator.checkpoint import read_variable
from replicate.estimator.cluster_session import (
    WaitingSessionCreator,
    session_options,
)
from replicate.estimator.events import event_hooks
from replicate.estimator.finite import FiniteVariablesListener, require_finite_loss
from replicate.estimator.inputs import Inputs, batch_size
from replicate.estimator.log import log
from replicate.estimator.profiling import ProfileHook
from replicate.estimator.progress import ProgressHook
from replicate.estimator.run_config import RunConfig
from replicate.estimator.saving import CheckpointHook, build_savers
from replicate.estimator.search import newest_checkpoint
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.signals import Interruption, TrainingInterrupted, interruptions
from replicate.estimator.stepping import Stepper, StopHook
from replicate.estimator.steps import StepReadings
from replicate.spec import EstimatorSpec

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
    inputs: Inputs, spec: EstimatorSpec, model_dir: str, config: RunConfig, request: TrainRequest
) -> None:
    """Trains the model of the default graph, and leaves its last step in a checkpoint.

    Raises:
      TrainingInterrupted: SIGINT or SIGTERM arrived; the step reached is saved.
      NonFiniteError: The loss or a variable is not finite; the newest checkpoint is.
      CheckpointError: The checkpoint to continue from cannot be loaded, or none can be written.
      ClusterError: The chief of the cluster has not initialised the model in time.
      ValueError: Steps are asked for, and nothing in the graph increases the global step.
    """
    if request.steps is not None or request.max_steps is not None:
        _check_step_moves()
    if config.is_chief:
        _run_chief(inputs, spec, model_dir, config, request)
    else:
        _run_worker(inputs, spec, model_dir, config, request)


def _run_chief(
    inputs: Inputs, spec: EstimatorSpec, model_dir: str, config: RunConfig, request: TrainRequest
) -> None:
    """Trains, and writes checkpoints and event files."""
    scaffold = spec.scaffold or v1.train.Scaffold()
    savers = build_savers(scaffold, inputs.position, config)
    creator = RestoringSessionCreator(
        scaffold,
        savers.variables,
        lambda: newest_checkpoint(model_dir),
        session_options(config),
        inputs.position,
        config.master,
    )
    readings = StepReadings(spec.train_op, spec.loss)
    checkpoints = CheckpointHook(
        model_dir,
        savers,
        readings,
        config,
        inputs.position,
        [FiniteVariablesListener(), *request.listeners],
    )
    progress = _progress(inputs, readings, config, request)
    writer = v1.summary.FileWriter(model_dir, v1.get_default_graph())
    profiles = []
    if config.profile_steps is not None:
        profiles.append(ProfileHook(readings, model_dir, config.profile_steps))
    hooks = [
        *request.hooks,
        *spec.training_hooks,
        *spec.training_chief_hooks,
        *profiles,
        StopHook(readings, request.steps, request.max_steps),
        progress,
        *event_hooks(writer, scaffold, readings, config),
        checkpoints,
    ]
    with contextlib.ExitStack() as stack:
        for closed_at_the_end in (writer, progress, *profiles):
            stack.callback(closed_at_the_end.close)
        interruption = stack.enter_context(interruptions())
        _loop(creator, readings, hooks, interruption)
    if interruption.signum is not None:
        raise TrainingInterrupted(interruption.signum, *checkpoints.saved)


def _run_worker(
    inputs: Inputs, spec: EstimatorSpec, model_dir: str, config: RunConfig, request: TrainRequest
) -> None:
    """Trains what the chief of a cluster has initialised, and writes nothing."""
    readings = StepReadings(spec.train_op, spec.loss)
    creator = WaitingSessionCreator(spec.scaffold or v1.train.Scaffold(), config)
    progress = _progress(inputs, readings, config, request)
    hooks = [
        *request.hooks,
        *spec.training_hooks,
        StopHook(readings, request.steps, request.max_steps),
        progress,
    ]
    with contextlib.closing(progress), interruptions() as interruption:
        _loop(creator, readings, hooks, interruption)
    if interruption.signum is not None:
        saved = newest_checkpoint(model_dir)
        step = 0 if saved is None else int(read_variable(saved, "global_step"))
        raise TrainingInterrupted(interruption.signum, step, saved or "")


def _loop(
    creator: v1.train.SessionCreator, readings: StepReadings, hooks: list[Any], until: Interruption
) -> None:
    """Makes steps until a hook, the end of the input or a signal stops it."""
    stepper = Stepper(readings, hooks, lambda: require_finite_loss(readings))
    with (
        user_errors(),
        v1.train.MonitoredSession(creator, stepper.hooks, STOP_GRACE_SECS) as session,
    ):
        stepper.run(session, lambda: until.signum is not None)
    if readings.loss is None and until.signum is None:
        log.warning(
            "Training made no step: the input ended before its first batch, or a hook stopped it. "
            "Look at what input_fn returns: an empty file list, or a batch larger than the data "
            "with drop_remainder=True."
        )


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
