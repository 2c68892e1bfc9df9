"""replicate_model_fn: one `model_fn`, run once per device.

The replicated function follows the order of a training step: it splits the batch, the user's
`model_fn` builds a tower on each shard, and the towers' specs are merged. `TowerOptimizer`, which
the user's `model_fn` calls, sums the gradients.
"""

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from model_deploy.devices import DevicePlan, SharedPlacement, device_plan
from model_deploy.disagreement import different_optimizer_calls
from model_deploy.reduction import GradientReduction
from model_deploy.tracebacks import shows_user_frames
from replicate._types import ModelFn, Nest, Operation, Spec, Tensor
from replicate.batch.ahead import batch_and_ahead
from replicate.batch.nests import flatten
from replicate.batch.one_each import is_group, shards_of_group
from replicate.batch.split import Shard, Splitting, Uneven, batch_rows, split_batch
from replicate.batch.staging import staged_shards
from replicate.batch_norm.statistics import BatchStatistics, UpdateOps
from replicate.calling import call_model_fn, check_choice, check_model_fn, takes
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.gradients.ungathered import ungathered_variables
from replicate.graph_mode import check_no_keras_model, check_not_eager
from replicate.results.merge import merge_specs
from replicate.spec import ModeKeys
from replicate.tower.build import Summaries, TowerBuild, TowerSettings, current_tower
from replicate.tower.default_towers import default_devices
from replicate.tower.recorded_plan import record_plan
from replicate.tower.scopes import TowerScopes, tower_scopes
from replicate.tower.workers import current_workers
from replicate.unmodified.losses import recorded_reductions
from replicate.unmodified.marks import mark_replicated
from replicate.unmodified.optimizers import gathered_optimizers

v1 = tf.compat.v1
log = logging.get_absl_logger()
Reduction = v1.losses.Reduction


@shows_user_frames
def replicate_model_fn(
    model_fn: ModelFn,
    loss_reduction: str | None = Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
    *,
    variables: SharedPlacement = "local",
    uneven: Uneven = "error",
    unsplit: Collection[str] = (),
    update_ops: UpdateOps = "mean",
    summaries: Summaries = "first",
    xla: bool = False,
    reduction: GradientReduction = "last",
    wrap_optimizers: bool = False,
) -> ModelFn:
    """Makes a `model_fn` that runs the given one on several devices at once.

    Each device gets an equal part of the batch and computes loss and gradients on it (a tower).
    Towers share their variables. N towers train as one tower does on the whole batch. `model_fn`
    must wrap its optimizers in `TowerOptimizer`, unless `wrap_optimizers` is True.

    If the batches of an input come from `one_batch_each`, each tower gets a batch of its own in
    TRAIN and EVAL, and all towers count alike.

    Args:
      model_fn: Function of features, labels, mode, params and config (the last four optional, by
        name) that returns an EstimatorSpec: ours, or that of tf.estimator. It receives those that
        it names, as from `Estimator`; params and config are copies.
      loss_reduction: Reduction of the examples' losses in `model_fn`, a value of
        `tf.compat.v1.losses.Reduction`. With SUM the towers' losses are summed; with any mean they
        are averaged. None: summed if the graph of the loss tells that it is a sum over the rows.
        If that tells nothing, summed if the last function of `tf.compat.v1.losses` or head that
        `model_fn` called before it applied gradients had the reduction SUM, averaged otherwise.
      devices: A device name for each tower. None: the towers of `python -m replicate.compat`, or
        else all local GPUs or, if there are none, all CPUs.
      variables: "local" places all variables on the CPU (on the GPU if there is one tower);
        "round_robin" places them on the towers' devices in turn.
      uneven: Treatment in TRAIN and EVAL of a batch that the number of towers does not divide:
        "error" refuses it; "pad" repeats its last row, which then counts more than once; "weighted"
        gives the first towers one more row and weights each tower's loss by its rows, so that loss,
        gradients and metrics are those of one tower. PREDICT takes any batch: it pads the batch and
        drops the predictions of the added rows.
      unsplit: Keys of dicts in features and labels whose values every tower gets whole.
      update_ops: Merging of the updates of batch normalization's moving averages, see
        `BatchStatistics`: the "mean" of all towers, which is closest to one tower; the "first"
        tower's updates only; or "all", one after the other. They run in every training step.
      summaries: Towers whose summaries are written: the "first" one, or "all".
      xla: True to compile each tower with XLA in TRAIN, forward and backward. Operations with
        state, checks and functions (`tf.cond`, `tf.function`) are not compiled.
      reduction: Way by which the towers' gradients are summed. "last": in the last tower's part of
        the graph, at once, on the device of each variable. "sharded": each tower's device adds up
        an equal part of the gradients, by bytes. "tree": the same parts, but neighbouring towers
        add up theirs pair by pair. See `model_deploy.reduce_over_copies`.
      wrap_optimizers: True to let each optimizer of `tf.compat.v1.train` in `model_fn` act as if it
        were wrapped in `TowerOptimizer`. Variables that no optimizer changes are not touched.

    Returns:
      A function (features, labels, mode, params=None, config=None) → EstimatorSpec, of the type
      that `model_fn` returns. Call it where a graph is built. Each call logs the device plan at
      INFO.

    Raises:
      TypeError: `model_fn` is not callable, is a Keras model or requires other arguments, or
        `devices` is one string.
      ValueError: The reduction is NONE or unknown, a device does not exist, or a choice is unknown.
    """
    check_no_keras_model("replicate_model_fn", model_fn)
    check_model_fn(model_fn)
    averages_loss = _averages(loss_reduction)
    plan = device_plan(default_devices() if devices is None else devices, variables)
    settings = TowerSettings(plan, averages_loss, summaries, xla, reduction, wrap_optimizers)
    splitting = Splitting(len(plan.towers), uneven, frozenset(unsplit))
    check_choice("update_ops", update_ops, UpdateOps)
    check_choice("summaries", summaries, Summaries)
    check_choice("reduction", reduction, GradientReduction)

    @shows_user_frames
    def replicated_model_fn(
        features: Nest, labels: Nest, mode: str, params: Any = None, config: Any = None
    ) -> Spec:
        check_not_eager(f"A replicated model_fn was called with {type(features).__name__} features")
        _check_not_nested(plan)
        _log_plan(mode, plan)
        record_plan(plan)
        batch = _split(features, labels, mode, splitting, plan)
        # Copied once for all towers, so that no tower can change the originals.
        given = {"params": params, "config": config}
        copies = {name: copy.deepcopy(given[name]) for name in given if takes(model_fn, name)}
        bound = functools.partial(call_model_fn, model_fn, mode=mode, **{**given, **copies})
        statistics = BatchStatistics(update_ops) if mode == ModeKeys.TRAIN else None
        with contextlib.ExitStack() as stack:
            scopes = stack.enter_context(tower_scopes(_settings_in(mode, settings, batch)))
            if wrap_optimizers:
                stack.enter_context(gathered_optimizers())
            if averages_loss is None:
                stack.enter_context(recorded_reductions())
            towers = build_towers(bound, batch.shards, scopes, statistics)
        build = scopes.build
        workers = current_workers() if mode == ModeKeys.TRAIN else None
        trained = [] if workers is None else [_operation(towers[-1].train_op)]
        merged = statistics and statistics.merged(build.skipped, build.task, workers, trained)
        besides = [merged, batch.sent]
        spec = merge_specs(
            mode,
            towers,
            plan.consolidation,
            batch.rows,
            [each for each in besides if each is not None],
        )
        if workers is None:
            return spec
        with v1.control_dependencies(trained):
            return spec._replace(loss=workers.total(tf.identity(spec.loss), build.averages_loss))

    return mark_replicated(replicated_model_fn)


class _SplitBatch(NamedTuple):
    """A batch for the towers.

    Attributes:
      shards: The part of each tower.
      rows: Rows of the batch if the shards contain added rows, else None.
      sent: Operation of every training step that sends the next shards to the towers, or None.
      is_group: True if each shard is a batch of its own.
    """

    shards: Sequence[Shard]
    rows: Tensor | None = None
    sent: Operation | None = None
    is_group: bool = False


def _split(
    features: Nest, labels: Nest, mode: str, splitting: Splitting, plan: DevicePlan
) -> _SplitBatch:
    """Splits a batch in one of the forms that an input pipeline gives."""
    if is_group(features):
        return _SplitBatch(shards_of_group(features, labels, len(plan.towers)), is_group=True)
    how = _splitting_in(mode, splitting)
    batch, ahead = batch_and_ahead(features, labels)
    sent = None
    with v1.device(plan.consolidation):
        if ahead is None or mode != ModeKeys.TRAIN:
            shards = split_batch(*batch, how)
        else:
            shards, sent = staged_shards(
                batch, ahead, lambda batch: split_batch(*batch, how), plan.towers
            )
        rows = batch_rows(batch.features, how) if how.uneven == "pad" else None
    return _SplitBatch(shards, rows, sent)


def _operation(train_op: Any) -> Operation:
    return train_op if isinstance(train_op, tf.Operation) else train_op.op


def _log_plan(mode: str, plan: DevicePlan) -> None:
    log.info(
        "Replicating model_fn in mode %r. Towers: %s. Variables: %s. Consolidation: %s.",
        mode,
        ", ".join(plan.towers),
        ", ".join(plan.parameters),
        plan.consolidation,
    )


def _check_not_nested(plan: DevicePlan) -> None:
    tower = current_tower()
    if tower is not None and tower.count > 1 and len(plan.towers) > 1:
        raise ValueError(
            f"Cannot build {len(plan.towers)} towers inside of {tower.label}: model_fn calls a "
            f"replicated model_fn, and is replicated itself on {tower.count} towers. Leave out one "
            "of the two."
        )


def build_towers(
    model_fn: ModelFn,
    shards: Sequence[Shard],
    scopes: TowerScopes,
    statistics: BatchStatistics | None = None,
) -> list[Spec]:
    """Calls the user's `model_fn` once for each shard, in order, each on its device.

    The losses of the specs are scaled to the tower's share of the batch. Without `statistics`,
    batch statistics do not change.

    Raises:
      ValueError: There are several towers and an optimizer trains without a TowerOptimizer, or
        towers make different optimizer calls or variables.
    """
    towers: list[Spec] = []
    scopes.build.batches = [(shard.features, shard.labels) for shard in shards]
    whole = _in_all(shards)
    for index, shard in enumerate(shards):
        with (
            statistics.tower(scopes, index, shard)
            if statistics
            else scopes.tower(index, shard.weight)
        ):
            scopes.build.verdicts.begin_tower((shard.features, shard.labels), whole)
            towers.append(_build_tower(model_fn, shard, scopes))
            names = v1.get_default_graph().get_name_scope()
    _check_optimizer_calls(towers, scopes.build, names)
    return towers


def _in_all(shards: Sequence[Shard]) -> list[Tensor]:
    """Returns the Tensors that all of several towers get whole."""
    leaves = [flatten((each.features, each.labels), expand_composites=True) for each in shards]
    others = {id(leaf) for leaf in leaves[-1]} if len(shards) > 1 else set()
    return [leaf for leaf in leaves[0] if id(leaf) in others]


def _build_tower(model_fn: ModelFn, shard: Shard, scopes: TowerScopes) -> Spec:
    spec = model_fn(features=shard.features, labels=shard.labels)
    if getattr(spec, "loss", None) is not None:
        scopes.build.add_loss(spec.loss)
        spec = spec._replace(loss=scopes.build.part_of_loss(spec.loss))
    return spec


def _check_optimizer_calls(towers: Sequence[Spec], build: TowerBuild, names: str) -> None:
    """Refuses towers and workers that train on their own parts of the batch.

    `names` is the last tower's scope.
    """
    count = len(towers)
    if count == 1 and (current_workers() is None or not build.gathered):
        return  # `Estimator` refuses workers that gather nothing.
    if len(set(build.call_counts)) > 1:
        raise different_optimizer_calls(build.call_counts)
    train_op = towers[-1].train_op
    if train_op is None:
        return
    wrap = (
        "Please wrap optimizers with TowerOptimizer in model_fn: "
        "optimizer = replicate.TowerOptimizer(optimizer), before optimizer.minimize(loss, …)."
    )
    none = "a train_op without a TowerOptimizer, so each tower would train on its own part of the"
    if build.settings.wraps_optimizers:
        wrap = (
            "Assignments of the model's own and optimizers of Keras are not gathered: train on one "
            "device, or apply gradients by an optimizer of tf.compat.v1.train."
        )
        none = "a train_op, but no optimizer of tf.compat.v1.train applied the gradients of the"
    if not TowerOptimizer.has_been_used():
        raise ValueError(f"Cannot train on {count} towers: model_fn returned {none} batch. {wrap}")
    scope = f"{names}/" if count > 1 else ""
    bare = ungathered_variables(train_op, scope, build.gathered)
    if bare:
        where, part = f"on {count} towers", "a part of the batch"
        if count == 1:
            where, part = "with AllReduce", "the batch of each worker"
        raise ValueError(
            f"Cannot train {where}: model_fn has an optimizer without a TowerOptimizer, which "
            f"would train [{', '.join(bare)}] on {part} only. {wrap}"
        )


def _settings_in(mode: str, settings: TowerSettings, batch: _SplitBatch) -> TowerSettings:
    """Returns the settings of a mode and a batch. Towers are compiled in TRAIN only."""
    xla = settings.xla and mode == ModeKeys.TRAIN
    return dataclasses.replace(settings, xla=xla, one_batch_each=batch.is_group)


def _splitting_in(mode: str, splitting: Splitting) -> Splitting:
    """Returns the settings of a mode. PREDICT pads: any batch is accepted, no shard is empty."""
    if mode == ModeKeys.PREDICT:
        return dataclasses.replace(splitting, uneven="pad")
    return splitting


def _averages(loss_reduction: str | None) -> bool | None:
    if loss_reduction is None:
        return None
    accepted = [reduction for reduction in Reduction.all() if reduction != Reduction.NONE]
    if loss_reduction == Reduction.NONE:
        raise ValueError(
            f"Cannot replicate a model_fn whose loss is not reduced: there is no one loss to "
            f"add up over towers when 'none' reduction is specified. Accepted: {accepted}."
        )
    if loss_reduction not in accepted:
        raise ValueError(f"loss_reduction must be one of {accepted}, got {loss_reduction!r}.")
    return bool(loss_reduction != Reduction.SUM)
