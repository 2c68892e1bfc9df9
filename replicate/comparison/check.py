"""check_replication: compares the training step of N towers with that of one tower.

Used by the dry run of programs. It builds the model twice in memory, on one tower and on all
towers, gives both the same weights and batch, makes one training step with each, and reports the
difference of each variable. It trains no model and writes no file. Its graphs and sessions end with
the call.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from model_deploy.devices import DevicePlan, SharedPlacement, device_plan
from model_deploy.reduction import GradientReduction
from model_deploy.tracebacks import shows_user_frames
from replicate._types import Gradient, ModelFn, Nest, Spec, Tensor, Variable
from replicate.batch.split import Uneven
from replicate.batch_norm.statistics import UpdateOps
from replicate.comparison.differences import Array, Difference, differences, towers_of
from replicate.estimator.calling import check_model_fn
from replicate.estimator.input_batches import build_inputs
from replicate.estimator.keras_names import build_with_new_names
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.session_options import begin_graph
from replicate.graph_ops.checks import user_errors
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys
from replicate.tower.build import REDUCED_GRADIENTS
from replicate.variables.table import model_table

v1 = tf.compat.v1
Reduction = v1.losses.Reduction


@dataclasses.dataclass(frozen=True)
class ReplicationCheck:
    """Result of `check_replication`. Its `str` is the report.

    Attributes:
      plan: Devices of towers and variables.
      table: Table of the trainable variables, made by `model_table`.
      loss: Difference of the loss before the step.
      gradients: Differences of the gradients that the optimizers got, sparse ones as dense arrays.
        Empty if there is one tower and no TowerOptimizer.
      variables: Differences of all global variables after the step, including slots and global
        step.
      unmatched: Values that only one of the two models has, as "<name> (only on <count> tower(s))".
    """

    plan: DevicePlan
    table: str
    loss: Difference
    gradients: tuple[Difference, ...]
    variables: tuple[Difference, ...]
    unmatched: tuple[str, ...]

    @property
    def worst(self) -> Difference:
        """The difference with the largest relative value; the first of several."""
        return max(self._all(), key=lambda difference: difference.relative)

    def ok(self, tolerance: float = 2e-6) -> bool:
        """Returns True if all relative differences are within the tolerance, none is unmatched.

        Args:
          tolerance: Largest relative difference, ≥ 0. The default suits float32. Rounding errors
            are about 1e-15 in float64 and 1e-3 in float16.
        """
        return not self.unmatched and self.worst.relative <= tolerance

    def __str__(self) -> str:
        """Returns the report: devices, variables, differences, as lines of plain text."""
        found = self._all()
        width = max(len(difference.name) for difference in found)
        lines = [
            f"{'':{width}}  absolute  relative",
            *(difference.line(width) for difference in found),
        ]
        if not self.gradients:
            lines.append("Gradients: not compared, since no TowerOptimizer wraps the optimizer.")
        lines += [f"Not compared: {unmatched}." for unmatched in self.unmatched]
        lines.append(f"Largest relative difference: {self.worst.relative:.1e}, {self.worst.name}.")
        count = towers_of(len(self.plan.towers))
        title = f"One training step on the same batch, {count} against 1 tower:"
        return "\n".join([str(self.plan), "", self.table, "", title, *lines])

    def _all(self) -> list[Difference]:
        return [self.loss, *self.gradients, *self.variables]


@shows_user_frames
def check_replication(
    model_fn: ModelFn,
    input_fn: Callable[..., Any],
    devices: Sequence[str] | None = None,
    params: Any = None,
    loss_reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    *,
    variables: SharedPlacement = "local",
    uneven: Uneven = "error",
    unsplit: Collection[str] = (),
    update_ops: UpdateOps = "mean",
    reduction: GradientReduction = "last",
    config: RunConfig | None = None,
    output: Callable[[str], Any] | None = print,
) -> ReplicationCheck:
    """Makes one training step on one tower and on several, and compares them.

    Both start from the initial weights of the model on one tower and use the first batch of
    `input_fn`. They agree up to rounding if the loss is a function of weights and batch and a mean
    (or sum) over rows. These models differ:

    - Dropout and other random operations draw other numbers on each tower. Switch them off through
      `params`.
    - Batch normalization uses the statistics of each tower's own rows.
    - With uneven="pad" the repeated last row counts more than once.

    Random initializers make no difference, because weights are copied.

    Hooks of the EstimatorSpec do not run. An optimizer that needs one to make a step, such as
    SyncReplicasOptimizer, cannot be checked.

    Args:
      model_fn: The argument of `replicate_model_fn`, not its result.
      input_fn: As for `Estimator.train`. It is called once, for one batch.
      devices: As for `replicate_model_fn`. The single tower is on the first device.
      params: Passed to both functions; model_fn gets a deep copy.
      loss_reduction: As for `replicate_model_fn`.
      variables: As for `replicate_model_fn`.
      uneven: As for `replicate_model_fn`.
      unsplit: As for `replicate_model_fn`.
      update_ops: As for `replicate_model_fn`.
      reduction: As for `replicate_model_fn`.
      config: Passed to both functions. Its seed and session options are used. None: defaults.
      output: Function that is called once with the report. None: no report.

    Returns:
      The differences.

    Raises:
      TypeError: A function has a wrong signature, or model_fn returns no EstimatorSpec.
      ValueError: There is no batch, it cannot be split, model_fn returns no loss or no train_op, or
        the shape of a variable depends on the number of towers.
      NonFiniteError: A gradient is NaN or infinite.
    """
    check_model_fn(model_fn, params)
    params = {} if params is None else params
    config = RunConfig() if config is None else config
    plan = device_plan(devices, variables)
    batch = _first_batch(input_fn, params, config)

    def step(towers: Sequence[str], initial: Mapping[str, Array] | None) -> _Step:
        replicated = replicate_model_fn(
            model_fn,
            loss_reduction,
            towers,
            variables=variables,
            uneven=uneven,
            unsplit=unsplit,
            update_ops=update_ops,
            reduction=reduction,
        )
        return _one_step(replicated, batch, params, config, initial)

    one = step(plan.towers[:1], None)
    many = step(plan.towers, one.initial)
    check = _compared(plan, one, many)
    if output is not None:
        output(str(check))
    return check


class _Batch(NamedTuple):
    """One batch, outside of any graph.

    Attributes:
      features: Features of input_fn. Their Tensors only mark positions.
      labels: Labels of input_fn, likewise.
      values: The value of each of these Tensors, by its `ref()`.
    """

    features: Nest
    labels: Nest
    values: dict[Any, Array]

    def placeholders(self) -> tuple[Nest, Nest, dict[Tensor, Array]]:
        """Returns features and labels as placeholders in the current graph, and their feed."""
        feed: dict[Tensor, Array] = {}

        def placeholder(leaf: Any) -> Any:
            if not isinstance(leaf, tf.Tensor):
                return leaf
            made = v1.placeholder(leaf.dtype, leaf.shape)
            feed[made] = self.values[leaf.ref()]
            return made

        return _mapped(placeholder, self.features), _mapped(placeholder, self.labels), feed


class _Step(NamedTuple):
    """One training step of one model: all global variables before and after it, by name."""

    initial: dict[str, Array]
    loss: Array
    gradients: dict[str, Array]
    variables: dict[str, Array]
    trainable: frozenset[str]
    table: str


def _first_batch(input_fn: Callable[..., Any], params: Any, config: RunConfig) -> _Batch:
    """Runs the input once, with its tables, iterators and queues, in a graph of its own."""
    config = config.replace(save_input_position=False, continue_input=False)
    with tf.Graph().as_default():
        begin_graph(config)
        inputs = build_inputs(input_fn, ModeKeys.TRAIN, params, config)
        tensors: list[Tensor] = []

        def collect(leaf: Any) -> Any:
            if isinstance(leaf, tf.Tensor):
                tensors.append(leaf)
            return leaf

        for nest in (inputs.features, inputs.labels):
            _mapped(collect, nest)
        values = None
        with v1.train.MonitoredSession(_session_creator(v1.train.Scaffold(), config)) as session:
            values = session.run(tensors)
    if values is None:  # The session ended without an error, because the input ended.
        raise ValueError(
            "Cannot check the replication of model_fn: input_fn gave no batch. Return a dataset "
            "with at least one batch; look for a filter, or drop_remainder=True with few rows."
        )
    keys = [tensor.ref() for tensor in tensors]
    return _Batch(inputs.features, inputs.labels, dict(zip(keys, values, strict=True)))


def _one_step(
    model_fn: ModelFn,
    batch: _Batch,
    params: Any,
    config: RunConfig,
    initial: Mapping[str, Array] | None,
) -> _Step:
    """Builds a model, sets its weights, and makes one training step.

    Without `initial` values by name, the model's initializers run. Of the config, the seed and the
    session options are used.
    """
    with tf.Graph().as_default() as graph:
        begin_graph(config)
        features, labels, feed = batch.placeholders()
        spec = build_with_new_names(
            lambda: model_fn(features, labels, ModeKeys.TRAIN, params, config)
        )
        _check_trains(spec)
        variables = {variable.op.name: variable for variable in v1.global_variables()}
        scaffold = spec.scaffold
        with _session_creator(scaffold, config).create_session() as session:
            if initial is not None:
                _load(session, variables, initial)
            before = session.run(variables)
            with user_errors():
                pairs = graph.get_collection(REDUCED_GRADIENTS)
                loss, gradients = session.run([spec.loss, [pair[0] for pair in pairs]], feed)
                session.run(spec.train_op, feed)
            after = session.run(variables)
        trained = v1.trainable_variables()
        return _Step(
            before,
            loss,
            _dense_gradients(pairs, gradients),
            after,
            frozenset(variable.op.name for variable in trained),
            model_table(trained),
        )


def _session_creator(scaffold: v1.train.Scaffold, config: RunConfig) -> RestoringSessionCreator:
    """Returns a creator of sessions whose variables are initialized, never restored."""
    return RestoringSessionCreator(scaffold, None, lambda: None, config.session_config)


def _check_trains(spec: Spec) -> None:
    for field in ("loss", "train_op"):
        if not hasattr(spec, field):
            raise TypeError(
                f"Cannot check the replication of model_fn: in mode 'train' it must return an "
                f"EstimatorSpec with a loss and a train_op, got {spec!r}. Look for a branch that "
                f"returns nothing."
            )
        if getattr(spec, field) is None:
            raise ValueError(
                f"Cannot check the replication of model_fn: in mode 'train' its EstimatorSpec must "
                f"have a loss and a train_op, and has no {field}. Pass it on."
            )


def _load(
    session: v1.Session, variables: Mapping[str, Variable], values: Mapping[str, Array]
) -> None:
    """Sets variables to the values of the same name. Others keep their values."""
    shared = {name: variables[name].initializer for name in variables if name in values}
    for name in shared:
        shape = variables[name].shape
        if not shape.is_compatible_with(np.shape(values[name])):
            raise ValueError(
                f"Cannot compare towers: variable {name!r} has shape {shape}, and "
                f"{np.shape(values[name])} on one tower. The shape of a variable must not depend "
                f"on the batch size; look for one that model_fn takes from its features."
            )
    # The second input of the operation that initialises a variable is its value.
    feed = {initializer.inputs[1]: values[name] for name, initializer in shared.items()}
    session.run(list(shared.values()), feed)


def _dense_gradients(
    pairs: Sequence[tuple[Gradient, Variable]], values: Sequence[Array]
) -> dict[str, Array]:
    """Returns dense gradients by the variable's name, with a number added if there are several."""
    dense: dict[str, Array] = {}
    for (gradient, variable), value in zip(pairs, values, strict=True):
        name, number = variable.op.name, 1
        while name in dense:
            number += 1
            name = f"{variable.op.name} ({number})"
        if isinstance(gradient, tf.IndexedSlices):
            dense[name] = np.zeros(variable.shape.as_list(), value.values.dtype)
            np.add.at(dense[name], value.indices, value.values)
        else:
            dense[name] = value
    return dense


def _compared(plan: DevicePlan, one: _Step, many: _Step) -> ReplicationCheck:
    def kind(name: str) -> str:
        return "trainable" if name in one.trainable else f"…/{name.rpartition('/')[2]}"

    count = len(plan.towers)
    [loss] = differences({"loss": one.loss}, {"loss": many.loss}, str, count)
    of_one, of_many = (
        {f"gradient of {name}": value for name, value in step.gradients.items()}
        for step in (one, many)
    )
    return ReplicationCheck(
        plan,
        many.table,
        loss,
        differences(of_one, of_many, lambda _: "gradient", count),
        differences(one.variables, many.variables, kind, count),
        (
            *_missing(of_one, of_many, 1),
            *_missing(of_many, of_one, count),
            *_missing(one.variables, many.variables, 1),
            *_missing(many.variables, one.variables, count),
        ),
    )


def _missing(present: Iterable[str], other: Mapping[str, Array], towers: int) -> list[str]:
    return [f"{name} (only on {towers_of(towers)})" for name in present if name not in other]


def _mapped(function: Callable[[Any], Any], nest: Nest) -> Nest:
    """Applies a function to every leaf of a batch, also inside sparse tensors and dataclasses."""

    def on_leaf(leaf: Any) -> Any:
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            return dataclasses.replace(leaf, **_mapped(function, vars(leaf)))
        return function(leaf)

    return tf.nest.map_structure(on_leaf, nest, expand_composites=True)
