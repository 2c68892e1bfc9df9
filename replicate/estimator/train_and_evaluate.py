"""train_and_evaluate: trains and evaluates in one call, in one process or as a role in a cluster.

Owns the order of the work of this process, whose role is one of `replicate/roles.py`.
`Estimator.train` trains, `evaluation_rounds.py` evaluates and exports, `cluster/servers.py` starts
and ends the cluster.
"""

import functools
from typing import Any

from model_deploy.tracebacks import shows_user_frames
from replicate.estimator.checkpoints.reading import read_variable
from replicate.estimator.cluster.servers import (
    WaitCancelled,
    delay_worker,
    serve_until_done,
    start_server,
    tell_parameter_servers,
    wait_for_parameter_servers,
)
from replicate.estimator.cluster.uncaught_errors import ends_task_by_code
from replicate.estimator.end_marker import announce_end
from replicate.estimator.estimator import Estimator
from replicate.estimator.evaluation_rounds import EvaluationRounds, RoundsHook, follow_checkpoints
from replicate.estimator.log import log
from replicate.estimator.shared_rounds import SharedRoundsHook
from replicate.estimator.strategies import all_reduce_of
from replicate.estimator.train_specs import EvalSpec, TrainSpec
from replicate.roles import TaskType


@shows_user_frames
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]]:
    """Trains, evaluates the checkpoints on the way, and evaluates and exports the last one.

    Without a cluster, this process does everything. With TF_CONFIG it does the work of its task:
    chief and workers train, and also evaluate with `AllReduce(evaluates=True)`, each its share of
    the batches; a master trains and evaluates, an evaluator evaluates new checkpoints
    until training has ended or a checkpoint has reached max_steps, and a parameter server keeps
    variables until the others are done.

    Args:
      estimator: The model; its config holds the role.
      train_spec: Settings of training.
      eval_spec: Settings of evaluation and export.

    Returns:
      The results of the last evaluation and of its exporters; (None, []) in a role that does not
      evaluate.

    Raises:
      TypeError: An argument is of the wrong class.
      ValueError: This process is a second evaluator.
      TrainingInterrupted: As in `Estimator.train`; there is no final evaluation.
      CheckpointError: As in `Estimator.train` and `Estimator.evaluate`.
      ClusterError: The cluster cannot be started or reached.
    """
    for name, value, kind in (
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
        ("eval_spec", eval_spec, EvalSpec),
    ):
        if not isinstance(value, kind):
            raise TypeError(
                f"train_and_evaluate: {name} must be a replicate.{kind.__name__}, got {value!r}. "
                "Correct the argument."
            )
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR and config.task_id > 0:
        raise ValueError(
            f"train_and_evaluate: this process is evaluator {config.task_id}, and there can be one "
            "evaluator only, evaluator 0. Both would write the same files. Leave this one out of "
            "the cluster."
        )
    return _do_task(estimator, train_spec, eval_spec)


@ends_task_by_code
def _do_task(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]]:
    """Does the work of this process, and returns what `train_and_evaluate` returns."""
    config = estimator.config
    shares = config.all_reduce is not None and config.all_reduce.evaluates
    rounds = EvaluationRounds(estimator, eval_spec, exports_models=config.is_chief or not shares)
    role = config.cluster.role
    if role.trains:
        if config.all_reduce is not None:  # `Estimator.train` brings the workers together.
            delay_worker(config, functools.partial(_is_late, estimator, train_spec))
            train = _train_and_share if shares else _train
            train(estimator, train_spec, eval_spec, rounds)
        elif config.master and config.cluster.jobs:
            _train_in_cluster(estimator, train_spec, eval_spec, rounds)
        else:
            _train(estimator, train_spec, eval_spec, rounds)
        if role.saves:
            announce_end(estimator.model_dir)
    elif role.evaluates:
        rounds.clean()
        follow_checkpoints(rounds, estimator, train_spec.max_steps, eval_spec)
    elif role.keeps_variables:
        serve_until_done(start_server(config).target, config)
    return rounds.results, rounds.exports


def _train(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, rounds: EvaluationRounds
) -> None:
    """Trains; if this process also evaluates, with rounds in between and a final one.

    The only one of the workers that `AllReduce(evaluates=True)` asks to evaluate does.
    """
    settings = all_reduce_of(estimator.config.train_distribute)
    if not (estimator.config.cluster.role.evaluates or (settings and settings.evaluates)):
        estimator.train(
            train_spec.input_fn,
            hooks=train_spec.hooks,
            max_steps=train_spec.max_steps,
            saving_listeners=train_spec.saving_listeners,
        )
        return
    rounds.clean()
    hook = RoundsHook(rounds, estimator.model_dir, eval_spec.throttle_secs)
    _train_with(hook, estimator, train_spec)
    newest = estimator.latest_checkpoint()
    if newest is not None:
        rounds.run(newest, is_final=True)


def _train_with(
    hook: RoundsHook | SharedRoundsHook, estimator: Estimator, train_spec: TrainSpec
) -> None:
    """Trains with a hook that makes rounds of evaluation, and its listener."""
    estimator.train(
        train_spec.input_fn,
        hooks=[*train_spec.hooks, hook],
        max_steps=train_spec.max_steps,
        saving_listeners=[*train_spec.saving_listeners, hook.listener],
    )


def _train_and_share(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, rounds: EvaluationRounds
) -> None:
    """Trains with other workers, and evaluates with them, each its share of the batches."""
    is_chief = estimator.config.is_chief
    hook = SharedRoundsHook(rounds, estimator.model_dir, eval_spec.throttle_secs, is_chief)
    if is_chief:
        rounds.clean()
    _train_with(hook, estimator, train_spec)
    newest = estimator.latest_checkpoint()
    if newest is not None:
        try:
            rounds.run(newest, is_final=True)
        except WaitCancelled:
            log.info("Not evaluating: the others are done.")


def _train_in_cluster(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, rounds: EvaluationRounds
) -> None:
    """Trains as a chief, master or worker, and then tells the parameter servers."""
    config = estimator.config
    server = start_server(config)
    is_late = functools.partial(_is_late, estimator, train_spec)
    delay_worker(config, is_late)
    try:
        wait_for_parameter_servers(config, is_late)
    except WaitCancelled:
        log.info("Not training: the others are done, and the parameter servers have left.")
        return
    _train(estimator, train_spec, eval_spec, rounds)
    tell_parameter_servers(server.target, config)


def _is_late(estimator: Estimator, train_spec: TrainSpec) -> bool:
    """Returns True if this is a worker, and training has ended or its last step is saved."""
    if estimator.config.is_chief:
        return False
    if estimator.ending.is_final():
        return True
    if train_spec.max_steps is None:
        return False
    newest = estimator.latest_checkpoint()
    return newest is not None and read_variable(newest, "global_step") >= train_spec.max_steps
