"""Training of a built model, up to a checkpoint of its last step.

Owns the list of hooks that run beside the model's train_op, their order, and the end of the loop:
the last step, the end of the input, a signal, a number that is not finite, or a lost cluster. It
builds no part of the model. `Estimator.train` calls it in the model's graph.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate.errors import TrainingInterrupted
from replicate.estimator.between_workers import (
    agreement_of,
    checks_of_variables,
    hand_over_of,
    own_state,
    rounds_of,
    worker_start,
)
from replicate.estimator.checkpoints.fallback import newest_checkpoint
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.reading import read_variable
from replicate.estimator.checkpoints.worker_state import WorkerState
from replicate.estimator.cluster.meeting import Meeting
from replicate.estimator.cluster.recovery import RecoveringSessionCreator, last_loss_named
from replicate.estimator.cluster.servers import WaitCancelled
from replicate.estimator.cluster.worker_group import lost_workers_named
from replicate.estimator.cluster.worker_session import WorkerSessionCreator
from replicate.estimator.end_marker import TrainingEnd
from replicate.estimator.hooks.event_file import EventFile
from replicate.estimator.hooks.events import event_hooks
from replicate.estimator.hooks.finite import FiniteVariablesListener
from replicate.estimator.hooks.graph_files import GraphFiles, WrittenGraph
from replicate.estimator.hooks.hand_over import HandOverHook
from replicate.estimator.hooks.profiling import ProfileHook
from replicate.estimator.hooks.progress import ProgressHook
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.rounds import RoundsHook
from replicate.estimator.hooks.saving import CheckpointHook, build_saver, saves_checkpoints
from replicate.estimator.hooks.scheduled_hook import ScheduledHook
from replicate.estimator.hooks.start import StartHook
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import MovingStepCheck, StopHook
from replicate.estimator.hooks.time_spent import TimeSpentHook
from replicate.estimator.input_batches import Inputs, batch_size
from replicate.estimator.log import log, log_final_loss
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.session_options import session_options
from replicate.estimator.signals import Interruption, interruptions
from replicate.estimator.stop_conditions import StopConditions
from replicate.estimator.time_spent import SAVING, TimeSpent
from replicate.estimator.worker_start import WorkerStart
from replicate.graph_ops.checks import user_errors
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1

LABEL = "train"
"""First word of the progress of training."""

STOP_GRACE_SECS = 5
"""Seconds that a session waits for its queue threads when it closes."""


@dataclasses.dataclass(frozen=True)
class TrainRequest:
    """Arguments of one call of `Estimator.train`. `shows_start` is for tasks before its steps."""

    hooks: Sequence[Any] = ()
    listeners: Sequence[Any] = ()
    steps: int | None = None
    max_steps: int | None = None
    shows_start: bool = True


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """One run of a model.

    Attributes:
      config: Settings of this process.
      request: Arguments of the caller.
      start: Shows and saves devices and variables.
      directory: The model directory that this process may change; None if it may not.
      training_end: Tells a worker if the chief has ended training; None for the chief.
      written: The graph that runs before this one have written; None for no such runs.
      clock: Tells apart what a call takes its time for; None for a new one.
      meeting: Where workers without parameter servers begin and end together; None for others.
    """

    config: RunConfig
    request: TrainRequest
    start: StartHook
    directory: FencedModelDir | None = None
    training_end: TrainingEnd | None = None
    written: WrittenGraph | None = None
    clock: TimeSpent | None = None
    meeting: Meeting | None = None


def run_training(inputs: Inputs, spec: EstimatorSpec, run: TrainingRun) -> None:
    """Trains the model of the default graph, and saves its last step in a checkpoint.

    The loss is added to the collection `GraphKeys.LOSSES`, where hooks look for it.

    Raises:
      TrainingInterrupted: SIGINT or SIGTERM arrived; the step reached is saved.
      NonFiniteError: The loss or a variable is not finite; the newest checkpoint is.
      CheckpointError: The checkpoint to continue from cannot be loaded, or none can be written.
      ModelDirInUseError: Another process has taken over the model directory.
      ClusterError: Another process of the cluster is lost, or took too long.
      WorkersDifferError: Workers without parameter servers differ.
      ValueError: A number of steps is given, and nothing in the graph increases the global step; or
        there are listeners, and no checkpoints are saved.
    """
    if run.request.listeners and not saves_checkpoints(run.config):
        raise ValueError(
            f"Cannot tell {len(run.request.listeners)} checkpoint listeners of saves: RunConfig "
            "has neither save_checkpoints_steps nor save_checkpoints_secs, so that no checkpoint "
            "is saved. Set one of them; train_and_evaluate in one process needs that. A "
            "CheckpointSaverHook of your own takes its listeners as an argument."
        )
    if not any(each is spec.loss for each in v1.get_collection(v1.GraphKeys.LOSSES)):
        v1.add_to_collection(v1.GraphKeys.LOSSES, spec.loss)
    if run.config.is_chief:
        _run_chief(inputs, spec, run)
    else:
        _run_worker(inputs, spec, run)


def _run_chief(inputs: Inputs, spec: EstimatorSpec, run: TrainingRun) -> None:
    """Trains, and writes checkpoints and event files."""
    config, request, scaffold = run.config, run.request, spec.scaffold
    saver = build_saver(scaffold, config)
    batch = (inputs.features, inputs.labels)
    readings = StepReadings(spec.train_op, spec.loss, batch=batch, workers=inputs.workers)
    progress = _progress_hook(inputs, readings, config, request)
    writer = EventFile(str(config.model_dir))
    graph_files = _graph_files(inputs, saver, writer, run)
    profiles = _profile_hooks(readings, config)
    clock = TimeSpent(str(config.model_dir)) if run.clock is None else run.clock
    times = TimeSpentHook(clock, readings)
    with contextlib.ExitStack() as stack:
        closables: tuple[Any, ...] = (writer, progress, times, *profiles)
        for closable in closables:
            stack.callback(closable.close)
        interruption = stack.enter_context(interruptions())
        check_writer = run.directory.check_notice if run.directory else bool
        agreement = agreement_of(inputs, readings)
        conditions = StopConditions(
            interruption, readings, config, check_writer=check_writer, agreement=agreement
        )
        stop = StopHook(readings, request.steps, request.max_steps)
        saving: list[CheckpointHook] = []
        followers: list[ScheduledHook] = []
        rounds = rounds_of(
            inputs,
            conditions,
            lambda: stop.is_done,
            lambda: stop.is_done or any(hook.is_due for hook in saving),
            followers=followers,
        )
        saving += _checkpoint_hooks(inputs, saver, graph_files, conditions, run, clock, rounds)
        hand_over = hand_over_of(inputs, conditions, rounds)
        followers += [*saving, *filter(None, [hand_over])]
        creator = _chief_session_creator(spec, saver, inputs, run, progress, conditions, hand_over)
        hooks = [
            *conditions.wrap_user_hooks(
                [*request.hooks, *spec.training_hooks, *spec.training_chief_hooks]
            ),
            times,
            *profiles,
            *_checks_of_step(request),
            *checks_of_variables(inputs, readings),
            *([rounds] if rounds else []),
            stop,
            run.start,
            progress,
            graph_files,
            *event_hooks(writer, scaffold, readings, config),
            *followers,
        ]
        _run_loop(creator, hooks, conditions, progress, run, rounds, inputs.position)
    _raise_if_interrupted(conditions, interruption, config)


def _run_worker(inputs: Inputs, spec: EstimatorSpec, run: TrainingRun) -> None:
    """Trains the model that the chief of a cluster has initialised, and writes nothing."""
    config, request, scaffold = run.config, run.request, spec.scaffold
    readings = StepReadings(spec.train_op, spec.loss, workers=inputs.workers)
    progress = _progress_hook(inputs, readings, config, request)
    with contextlib.closing(progress), interruptions() as interruption:
        agreement = agreement_of(inputs, readings)
        conditions = StopConditions(
            interruption, readings, config, run.training_end, agreement=agreement
        )
        state = own_state(inputs, conditions)
        stop = StopHook(readings, request.steps, request.max_steps)
        followers: list[ScheduledHook] = []
        rounds = rounds_of(
            inputs, conditions, lambda: stop.is_done, state=state, followers=followers
        )
        followers += filter(None, [hand_over_of(inputs, conditions, rounds)])
        start = _worker_start(inputs, run, conditions, state)
        creator: v1.train.SessionCreator = (
            start.worker_creator(scaffold, conditions.should_cancel_wait)
            if start
            else WorkerSessionCreator(scaffold, config)
        )
        hooks = [
            *conditions.wrap_user_hooks([*request.hooks, *spec.training_hooks]),
            *checks_of_variables(inputs, readings),
            *([rounds] if rounds else []),
            stop,
            run.start,
            progress,
            *followers,
        ]
        _run_loop(creator, hooks, conditions, progress, run, rounds)
    _raise_if_interrupted(conditions, interruption, config)


def _chief_session_creator(
    spec: EstimatorSpec,
    saver: v1.train.Saver,
    inputs: Inputs,
    run: TrainingRun,
    progress: ProgressHook,
    conditions: StopConditions,
    hand_over: HandOverHook | None,
) -> v1.train.SessionCreator:
    """Returns the creator of sessions that start at the newest checkpoint.

    They start at the step that other workers have handed over, if that is newer.
    """
    config = run.config
    model_dir = str(config.model_dir)
    start = _worker_start(inputs, run, conditions)

    def make(copy: Callable[[v1.Session], None] | None = None) -> RestoringSessionCreator:
        def share(session: v1.Session) -> int | None:
            elements = None if hand_over is None else hand_over.state.load(session)
            if copy is not None:
                copy(session)
            return elements

        return RestoringSessionCreator(
            spec.scaffold,
            saver,
            lambda: newest_checkpoint(model_dir),
            session_options(config),
            inputs.position,
            config.master,
            keeps_values=bool(config.cluster.jobs) and start is None,
            show_start=progress.show_start,
            share=share,
        )

    return start.chief_creator(make, conditions.should_cancel_wait) if start else make()


def _worker_start(
    inputs: Inputs, run: TrainingRun, conditions: StopConditions, state: WorkerState | None = None
) -> WorkerStart | None:
    facts = {
        "number of steps": run.request.steps,
        "last step": run.request.max_steps,
        "train_distribute": repr(run.config.all_reduce),
    }
    return worker_start(inputs, run.meeting, facts, conditions, state)


def _progress_hook(
    inputs: Inputs, readings: StepReadings, config: RunConfig, request: TrainRequest
) -> ProgressHook:
    return ProgressHook(
        LABEL,
        readings,
        batch_size(inputs.features),
        last_step=request.max_steps,
        num_steps=request.steps,
        mode=config.progress,
        shows_start=request.shows_start,
    )


def _checks_of_step(request: TrainRequest) -> list[MovingStepCheck]:
    """Returns the check that the global step moves, if it ends the run.

    With model averaging only the chief increases it.
    """
    counts_steps = request.steps is not None or request.max_steps is not None
    return [MovingStepCheck()] if counts_steps else []


def _profile_hooks(readings: StepReadings, config: RunConfig) -> list[ProfileHook]:
    """Returns the hook that profiles steps, if the config asks for it."""
    if config.profile_steps is None:
        return []
    return [ProfileHook(readings, str(config.model_dir), config.profile_steps)]


def _graph_files(
    inputs: Inputs,
    saver: v1.train.Saver,
    writer: EventFile,
    run: TrainingRun,
) -> GraphFiles:
    """Returns the hook that writes the graph."""
    config = run.config
    return GraphFiles(
        str(config.model_dir),
        saver,
        writer,
        inputs.operations,
        saves_checkpoints(config) and config.checkpoint_save_graph_def,
        run.written,
    )


def _checkpoint_hooks(
    inputs: Inputs,
    saver: v1.train.Saver,
    graph_files: GraphFiles,
    conditions: StopConditions,
    run: TrainingRun,
    clock: TimeSpent,
    rounds: RoundsHook | None,
) -> list[CheckpointHook]:
    """Returns the hook that saves checkpoints, if the config asks for them."""
    if run.directory is None or not saves_checkpoints(run.config):
        return []
    hook = CheckpointHook(
        run.directory,
        saver,
        conditions.readings,
        run.config,
        inputs.position,
        [FiniteVariablesListener(), *run.request.listeners],
        conditions.continues_input,
        graph_files,
        lambda: clock.during(SAVING),
        lambda: rounds is not None and not rounds.allows_save,
    )
    return [hook]


def _run_loop(
    creator: v1.train.SessionCreator,
    hooks: list[Any],
    conditions: StopConditions,
    progress: ProgressHook,
    run: TrainingRun,
    rounds: RoundsHook | None,
    position: InputPosition | None = None,
) -> None:
    """Makes steps until a hook, the end of the input or a stop condition ends the run."""
    config = conditions.config
    recovering = RecoveringSessionCreator(
        creator,
        conditions.restarts,
        config,
        conditions.should_cancel_wait,
        progress.show_start,
    )
    loop = StepLoop(
        conditions.readings,
        [*hooks, conditions.watchdog],
        conditions.check_step,
        conditions.agreement,
    )

    @contextlib.contextmanager
    def failures() -> Iterator[None]:
        with (
            conditions.restarts.record_cause(),
            conditions.watchdog.handing_over(),
            lost_workers_named(
                config, conditions.watchdog.peers.lost, lambda: conditions.watchdog.error
            ),
        ):
            yield

    try:
        with (
            user_errors(),
            last_loss_named(config),
            conditions.watchdog,
            v1.train.MonitoredSession(recovering, loop.hooks, STOP_GRACE_SECS) as session,
            conditions.record_end_of_input(),
            rounds.at_the_end(failures) if rounds else contextlib.nullcontext(),
        ):
            loop.run(session, conditions.is_interrupted, failures)
    except WaitCancelled as reason:
        log.info("Training ends without a session. %s", reason)
        return
    if run.meeting is not None:
        run.meeting.end()
    if conditions.is_interrupted():
        return
    readings = conditions.readings
    if readings.loss is not None:
        log_final_loss(readings.loss_tensor.dtype.as_numpy_dtype(readings.loss))
    else:
        resumed_at = 0 if position is None else position.resumed_at
        cause = _cause_of_no_step(conditions, loop.is_done, resumed_at)
        log.warning("Training made no step: %s", cause)


def _cause_of_no_step(conditions: StopConditions, is_done: bool, resumed_at: int) -> str:
    """Returns the reason why a call of train ended before its first step."""
    if is_done:
        return f"the model is at step {conditions.readings.step}, and max_steps is not beyond that."
    if not conditions.has_input_ended:
        return "a hook asked for the end before the first step."
    if resumed_at:
        return (
            f"an interrupted run had read {resumed_at} batches, and its input has no more. The "
            "next call of train begins its input anew."
        )
    return (
        "the input ended before the first step. Look at what input_fn returns: an empty file list, "
        "a batch larger than the data with drop_remainder=True, or batches that a hook has read, "
        "as KMeansClustering reads those that its first centers are chosen from."
    )


def _raise_if_interrupted(
    conditions: StopConditions, interruption: Interruption, config: RunConfig
) -> None:
    """Raises TrainingInterrupted if a signal ended training.

    Raises:
      ClusterError: A signal has asked another worker to end, and not this one.
    """
    if interruption.signum is None and conditions.agreement is not None:
        conditions.agreement.raise_if_by_signal()
    if interruption.signum is not None:
        saved = newest_checkpoint(str(config.model_dir))
        step = 0 if saved is None else int(read_variable(saved, "global_step"))
        raise TrainingInterrupted(interruption.signum, step, saved or "")
