"""Parts of a training run by which workers without parameter servers start, agree and compare.

Workers that add up their gradients do so in every step; with `AllReduce(every=…)` they meet in
rounds. A process that trains alone needs none of these parts.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from replicate.estimator.checkpoints.worker_state import WorkerState
from replicate.estimator.cluster.meeting import Facts, Meeting
from replicate.estimator.cluster.worker_group import worker_names
from replicate.estimator.hooks.hand_over import HandOverHook
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.rounds import RoundsHook
from replicate.estimator.hooks.same_variables import SameVariablesHook
from replicate.estimator.hooks.saving import saves_checkpoints
from replicate.estimator.hooks.scheduled_hook import ScheduledHook
from replicate.estimator.hooks.step_loop import StopAgreement
from replicate.estimator.input_batches import Inputs
from replicate.estimator.stop_conditions import StopConditions
from replicate.estimator.strategies import all_reduce_of
from replicate.estimator.worker_start import WorkerStart

v1 = tf.compat.v1


def worker_start(
    inputs: Inputs,
    meeting: Meeting | None,
    facts: Facts,
    conditions: StopConditions,
    state: WorkerState | None = None,
) -> WorkerStart | None:
    """Returns the start of a worker without parameter servers, None for other processes.

    Facts must be equal in all workers. `state` is what a worker has of its own.
    """
    workers = inputs.workers or inputs.rounds
    if workers is None or meeting is None:
        return None
    config, connect = conditions.config, conditions.watchdog.peers.connect
    return WorkerStart(workers.group, meeting, config, facts, inputs.position, connect, state)


def agreement_of(inputs: Inputs, readings: StepReadings) -> StopAgreement | None:
    """Returns the agreement on the last step of all workers; None for a process alone."""
    if inputs.workers is not None:
        return StopAgreement(inputs.workers.names, readings, inputs.workers.wish)
    return StopAgreement(inputs.rounds.names, readings) if inputs.rounds is not None else None


def own_state(inputs: Inputs, conditions: StopConditions) -> WorkerState | None:
    """Returns the state that a worker other than the chief saves; None if there is none."""
    rounds, config = inputs.rounds, conditions.config
    if rounds is None or not saves_checkpoints(config):
        return None
    shared = {variable.ref() for variable in rounds.variables}
    variables = [each for each in v1.global_variables() if each.ref() not in shared]
    group, kept = rounds.group, config.keep_checkpoint_max or None
    place = str(config.model_dir), group.rank, group.size, kept
    return WorkerState(variables, *place, not_shared=rounds.rests.variables())


def rounds_of(
    inputs: Inputs,
    conditions: StopConditions,
    is_done: Callable[[], bool],
    is_save_due: Callable[[], bool] = bool,
    state: WorkerState | None = None,
    followers: Sequence[ScheduledHook] = (),
) -> RoundsHook | None:
    """Returns the hook that makes rounds; None where workers do not train apart.

    `is_done` tells if the last step was made. `is_save_due` tells the chief if a checkpoint is to
    be saved, and other workers have a `state`. `followers` are as in `RoundsHook`.
    """
    rounds, readings, agreement = inputs.rounds, conditions.readings, conditions.agreement
    if rounds is None or agreement is None:
        return None
    settings = rounds.group.settings
    check = SameVariablesHook(rounds.group, readings, rounds.variables)
    return RoundsHook(
        rounds,
        readings,
        agreement,
        check if settings.check_every else None,
        conditions.is_interrupted,
        conditions.watchdog.beat,
        is_done,
        is_save_due,
        state,
        followers,
    )


def hand_over_of(
    inputs: Inputs, conditions: StopConditions, rounds: RoundsHook | None
) -> HandOverHook | None:
    """Returns the hook that hands the newest step over to the workers that are left after a loss.

    None without `AllReduce(min_workers=…)`.

    Raises:
      ValueError: No checkpoints are saved, or the cluster has fewer workers than that.
    """
    config, watchdog = conditions.config, conditions.watchdog
    settings = all_reduce_of(config.train_distribute)
    if settings is None or settings.min_workers is None:
        return None
    names = worker_names(config) or ["this process"]
    if not saves_checkpoints(config):
        raise ValueError(
            f"AllReduce(min_workers={settings.min_workers}) needs checkpoints, from which workers "
            "go on after a loss, and RunConfig has neither save_checkpoints_steps nor "
            "save_checkpoints_secs. Set one of them."
        )
    if config.cluster.jobs and len(names) < settings.min_workers:
        raise ValueError(
            f"AllReduce(min_workers={settings.min_workers}) trains with no fewer workers, and "
            f"TF_CONFIG lists {len(names)}. Correct one of them, or --min_workers of the launcher."
        )

    def is_by_signal() -> bool:
        agreement = conditions.agreement
        return conditions.is_interrupted() or bool(agreement and agreement.is_by_signal)

    hook = HandOverHook(
        conditions.readings,
        inputs.position,
        str(config.model_dir),
        names,
        config.global_id_in_cluster or 0,
        watchdog.lost_peers,
        lambda: rounds is None or rounds.can_hand_over,
        is_by_signal,
    )
    watchdog.end_after(hook.hand_over)
    return hook


def checks_of_variables(inputs: Inputs, readings: StepReadings) -> list[SameVariablesHook]:
    """Returns the check that workers have the same variables after some of their steps."""
    workers = inputs.workers
    if workers is None or not workers.group.settings.check_every:
        return []
    return [SameVariablesHook(workers.group, readings)]
