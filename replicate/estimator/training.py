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

from replicate._types import Operation
from replicate.errors import user_errors
from replicate.estimator.checkpoint import newest_checkpoint
from replicate.estimator.events import event_hooks
from replicate.estimator.finite import FiniteLossHook, FiniteVariablesListener
from replicate.estimator.inputs import Inputs, batch_size
from replicate.estimator.progress import ProgressHook
from replicate.estimator.run_config import RunConfig
from replicate.estimator.saving import CheckpointHook, build_savers
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.signals import Interruption, TrainingInterrupted, interruptions
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1

STOP_GRACE_SECS = 5
"""How long a session waits for its queue threads when it closes."""


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
    """
    scaffold = spec.scaffold or v1.train.Scaffold()
    savers = build_savers(scaffold, inputs.position, config)
    creator = RestoringSessionCreator(
        scaffold,
        savers.variables,
        lambda: newest_checkpoint(model_dir),
        config.session_config,
        inputs.position,
    )
    checkpoints = CheckpointHook(
        model_dir,
        savers,
        config,
        inputs.position,
        [FiniteVariablesListener(), *request.listeners],
    )
    progress = _progress(inputs, spec, config, request)
    writer = v1.summary.FileWriter(model_dir, v1.get_default_graph())
    hooks = [
        *request.hooks,
        *spec.training_hooks,
        *spec.training_chief_hooks,
        FiniteLossHook(spec.loss),
        *_stop_hooks(request),
        progress,
        *event_hooks(writer, scaffold, spec.loss, config),
        checkpoints,
    ]
    with contextlib.closing(writer), contextlib.closing(progress), interruptions() as interruption:
        _loop(creator, hooks, spec.train_op, interruption)
    if interruption.signum is not None:
        raise TrainingInterrupted(interruption.signum, *checkpoints.saved)


def _loop(
    creator: v1.train.SessionCreator, hooks: list[Any], train_op: Operation, until: Interruption
) -> None:
    """Runs train_op until a hook, the end of the input or a signal stops it."""
    with (
        user_errors(),
        v1.train.MonitoredSession(creator, hooks, STOP_GRACE_SECS) as session,
    ):
        while not (session.should_stop() or until.signum):
            session.run(train_op)


def _stop_hooks(request: TrainRequest) -> list[Any]:
    if request.steps is None and request.max_steps is None:
        return []
    return [v1.train.StopAtStepHook(num_steps=request.steps, last_step=request.max_steps)]


def _progress(
    inputs: Inputs, spec: EstimatorSpec, config: RunConfig, request: TrainRequest
) -> ProgressHook:
    return ProgressHook(
        "train",
        spec.loss,
        batch_size(inputs.features),
        counter=v1.train.get_global_step(),
        last_step=request.max_steps,
        num_steps=request.steps,
        mode=config.progress,
    )
