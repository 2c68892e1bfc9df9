"""A classifier that trains on all of its clones: from a batch to the EstimatorSpec of a step.

`model_fn` follows the order of a step: clones, learning rate, optimizer, gradients, update, moving
averages, summaries. Each of these has its own module, or is in `model_deploy`.
`replicate.Estimator` runs the result: it provides safe checkpoints, signal handling, the NaN guard,
and the roles of a cluster.
"""

import dataclasses
from typing import Any

import tensorflow as tf

import model_deploy
import replicate
from examples.slim.image_classifier import clones as clones_of
from examples.slim.image_classifier import fine_tuning as begin
from examples.slim.image_classifier import optimizers, schedules, summaries
from examples.slim.image_classifier.optimizers import OptimizerSettings
from examples.slim.image_classifier.reports import StepLines
from examples.slim.image_classifier.schedules import Schedule

v1 = tf.compat.v1
Operation = Any
Tensor = Any
Variable = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training run.

    Attributes:
      network: The network to train.
      deployment: Its clones, replicas and parameter servers.
      schedule: Of the learning rate.
      epoch_steps: Steps of an epoch.
      optimizer: Name and settings of the optimizer.
      trainable_scopes: Scopes to train, with commas; None for everything.
      fine_tuning: Source of the initial values. None means the initializers.
      moving_average_decay: Weight of the past in averages of the variables; None for no averages.
      sync_replicas: True: the replicas make each step together.
      replicas_to_aggregate: Number of replicas that a step waits for.
      summarize_gradients: True: write summaries of the gradients.
      save_summaries_secs: Seconds between two summaries, 0 for none.
      log_every_n_steps: Steps between two lines on the terminal.
      batch_rows: Images in a step of this process.
    """

    network: clones_of.Network
    deployment: model_deploy.DeploymentConfig
    schedule: Schedule
    epoch_steps: float
    optimizer: OptimizerSettings
    trainable_scopes: str | None
    fine_tuning: begin.FineTuning | None
    moving_average_decay: float | None
    sync_replicas: bool
    replicas_to_aggregate: int
    summarize_gradients: bool
    save_summaries_secs: float
    log_every_n_steps: int
    batch_rows: int


def model_fn(
    features: Tensor,
    labels: Tensor,
    mode: str,
    params: TrainingSettings,
    config: replicate.RunConfig,
) -> replicate.EstimatorSpec:
    """Builds the graph of a training run on images [batch, height, width, channels] of all clones.

    Raises:
      ValueError: A setting does not fit the model or the checkpoint to begin with.
    """
    clones = clones_of.create(params.network, params.deployment, features, labels, True)
    global_step = v1.train.get_global_step()
    with v1.device(params.deployment.variable_placer().on(params.deployment.optimizer_device())):
        rate = schedules.learning_rate(params.schedule, params.epoch_steps, global_step)
        trained = begin.variables_to_train(params.trainable_scopes)
        model_variables = v1.get_collection(v1.GraphKeys.MODEL_VARIABLES)
        if params.optimizer.optimizer == "kfac":
            optimizers.register_layers(clones, clones_of.weighted_logits, trained)
        optimizer = optimizers.make_optimizer(params.optimizer, rate)
        averages = _averages(params, global_step)
        if params.sync_replicas:
            optimizer = _synchronous(optimizer, params, averages, model_variables)
        total_loss, gradients = model_deploy.optimize_clones(clones, optimizer, var_list=trained)
        update = optimizer.apply_gradients(gradients, global_step=global_step)
        updates = [update, *v1.get_collection(v1.GraphKeys.UPDATE_OPS, clones[0].scope)]
        if averages is not None and not params.sync_replicas:
            updates = [_average_after(updates, averages, model_variables)]
        with v1.control_dependencies(updates):
            train_op = tf.identity(total_loss, name="train_op")
            steps_made = tf.identity(global_step.read_value())
        summaries.add_summaries(clones[0], model_variables, rate, total_loss)
        if params.summarize_gradients:
            summaries.add_gradient_summaries(gradients)
    lines = StepLines(steps_made, total_loss, rate, params.log_every_n_steps, params.batch_rows)
    return replicate.EstimatorSpec(
        mode,
        loss=total_loss,
        train_op=train_op,
        scaffold=_scaffold(params, config, model_variables, averages),
        training_hooks=[lines, *_sync_hooks(optimizer, params, config)],
        training_chief_hooks=_writers(params, config),
    )


def _averages(
    params: TrainingSettings, global_step: Variable
) -> v1.train.ExponentialMovingAverage | None:
    if params.moving_average_decay is None:
        return None
    return v1.train.ExponentialMovingAverage(params.moving_average_decay, global_step)


def _average_after(
    updates: list[Operation],
    averages: v1.train.ExponentialMovingAverage,
    model_variables: list[Variable],
) -> Operation:
    """Updates the moving averages after the step has changed the variables."""
    with v1.control_dependencies(updates):
        return averages.apply(model_variables)


def _synchronous(
    optimizer: v1.train.Optimizer,
    params: TrainingSettings,
    averages: v1.train.ExponentialMovingAverage | None,
    model_variables: list[Variable],
) -> v1.train.SyncReplicasOptimizer:
    """Lets the replicas make a step together; the chief of them keeps the averages."""
    return v1.train.SyncReplicasOptimizer(
        optimizer,
        replicas_to_aggregate=params.replicas_to_aggregate,
        total_num_replicas=params.deployment.num_replicas,
        variable_averages=averages,
        variables_to_average=model_variables if averages is not None else None,
    )


def _sync_hooks(
    optimizer: v1.train.Optimizer, params: TrainingSettings, config: replicate.RunConfig
) -> list[v1.train.SessionRunHook]:
    return [optimizer.make_session_run_hook(config.is_chief)] if params.sync_replicas else []


def _writers(
    params: TrainingSettings, config: replicate.RunConfig
) -> list[v1.train.SessionRunHook]:
    if not config.is_chief:
        return []
    return summaries.writer_hooks(config.model_dir, params.save_summaries_secs)


def _scaffold(
    params: TrainingSettings,
    config: replicate.RunConfig,
    model_variables: list[Variable],
    averages: v1.train.ExponentialMovingAverage | None,
) -> v1.train.Scaffold | None:
    """The chief begins with the checkpoint to fine-tune, if there is one."""
    if params.fine_tuning is None or not config.is_chief:
        return None
    return v1.train.Scaffold(
        init_fn=begin.initial_values(params.fine_tuning, model_variables, averages)
    )
