"""Parts of a training run by which workers without parameter servers start, agree and compare.

Workers that add up their gradients do so in every step; with `AllReduce(every=…)` they meet in
rounds. A process that trains alone needs none of these parts.
"""

from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.cluster.meeting import Facts, Meeting
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.rounds import RoundsHook
from replicate.estimator.hooks.same_variables import SameVariablesHook
from replicate.estimator.hooks.step_loop import StopAgreement
from replicate.estimator.input_batches import Inputs
from replicate.estimator.stop_conditions import StopConditions
from replicate.estimator.worker_start import WorkerStart


def worker_start(
    inputs: Inputs, meeting: Meeting | None, facts: Facts, conditions: StopConditions
) -> WorkerStart | None:
    """Returns the start of a worker without parameter servers, None for other processes.

    Facts must be equal in all workers.
    """
    workers = inputs.workers or inputs.rounds
    if workers is None or meeting is None:
        return None
    position: InputPosition | None = inputs.position
    connect = conditions.watchdog.peers.connect
    return WorkerStart(workers.group, meeting, conditions.config, facts, position, connect)


def agreement_of(inputs: Inputs, readings: StepReadings) -> StopAgreement | None:
    """Returns the agreement on the last step of all workers; None for a process alone."""
    if inputs.workers is not None:
        return StopAgreement(inputs.workers.names, readings, inputs.workers.wish)
    return StopAgreement(inputs.rounds.names, readings) if inputs.rounds is not None else None


def rounds_of(inputs: Inputs, conditions: StopConditions) -> RoundsHook | None:
    """Returns the hook that makes rounds; None where workers do not train apart."""
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
    )


def checks_of_variables(inputs: Inputs, readings: StepReadings) -> list[SameVariablesHook]:
    """Returns the check that workers have the same variables after some of their steps."""
    workers = inputs.workers
    if workers is None or not workers.group.settings.check_every:
        return []
    return [SameVariablesHook(workers.group, readings)]
