"""Builds one K-FAC step in the graph of a training function.

    gradients and loss of this step → losses → layers → the graph's optimizer → the step's ops

Each trace of the function builds all of it anew, with the same variables. Called by
`kfac.keras.training`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.adaptive import adaptive
from kfac.arguments import check_period
from kfac.config import CurvatureConfig
from kfac.curvature.backward_pass import faster_gradients
from kfac.keras.fisher_approx import Approximations, check_approximations, register_layers
from kfac.keras.losses import register_losses
from kfac.layer_collection import LayerCollection, graph_layer_collection
from kfac.linalg.vectors import as_dense
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.precondition import Preconditioned, named_graft
from kfac.state import Assignment, assign_all, group, make_counter, make_variable, read, run_if
from kfac.update.given_optimizer import GivenOptimizer
from kfac.variables import name_of

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class StepSettings:
    """Settings that stay while a model is trained.

    Adaptive settings take learning rate, momentum and damping from the model of the loss.
    `unknown_layers` is "error" or "diagonal". `batch_size` counts examples in one replica's batch;
    None means the rows of what the model predicts. Gradients and statistics of `accumulation_steps`
    batches make one step; None means of one. `arguments` are further ones of the graph's optimizer.
    `given` means that another optimizer makes the step, `graft` the one that lengths are from.
    """

    adaptive: bool
    fisher_approx: Approximations
    unknown_layers: str
    batch_size: int | None
    accumulation_steps: int | None
    config: CurvatureConfig | None
    arguments: Mapping[str, Any]
    given: bool = False
    graft: str | None = None


class Hyperparameters(NamedTuple):
    """Values that may change from step to step: numbers, Tensors or Variables.

    α has no effect with adaptive settings. λ is the damping, β the momentum. `weight_decay` is the
    share of a weight that decays in a step, over the learning rate. `norm_constraint` bounds the
    squared Fisher norm of a step. `decays` returns True for the variables that decay; None means
    that all do.
    """

    learning_rate: Scalar | None
    damping: Scalar
    momentum: Scalar | None
    weight_decay: Scalar | None
    norm_constraint: Scalar | None
    decays: Callable[[Variable], bool] | None = None


class Batch(NamedTuple):
    """Gradients, over all replicas, variables, as the graph sees them, and losses of a step.

    There is a loss of each replica, shape []; their sum is minimized. The Keras model is None if it
    is not known. `make_step` makes the step of another optimizer, if such is given.
    """

    gradients: Sequence[Tensor]
    variables: Sequence[Variable]
    losses: Sequence[Tensor]
    model: Any
    make_step: Callable[[GradsAndVars], Operation] | None = None


def check_settings(settings: StepSettings, hyperparameters: Hyperparameters) -> None:
    """Checks all arguments before anything is trained.

    Raises:
      ValueError: A number is out of its range, or two arguments exclude each other.
      TypeError: A key of `fisher_approx` is neither a name nor a class.
    """
    check_approximations(settings.fisher_approx, settings.unknown_layers, settings.given)
    if settings.accumulation_steps is not None:
        check_period("gradient_accumulation_steps", settings.accumulation_steps)
        if settings.adaptive or settings.arguments.get("adapt_damping"):
            raise ValueError(
                "Cannot set up K-FAC: gradient_accumulation_steps="
                f"{settings.accumulation_steps} does not go with a damping that adapts, which "
                "compares losses of one batch. Leave out one of both."
            )
    with tf.Graph().as_default():
        _make_optimizer(settings, hyperparameters, LayerCollection())


def build_step(settings: StepSettings, hyperparameters: Hyperparameters, batch: Batch) -> Tensor:
    """Builds one step; a `tf.function` runs it without being told.

    Returns:
      bool [], whether this run makes a step, or adds to the sums for a later one.

    Raises:
      ValueError: No loss or layer is known, or as in `KfacOptimizer.apply_gradients`.
    """
    layers = graph_layer_collection(config=settings.config)
    if not layers.losses:
        register_losses(layers, batch.losses, batch.variables, settings.batch_size)
    register_layers(
        layers,
        batch.variables,
        settings.fisher_approx,
        settings.unknown_layers,
        settings.batch_size,
        batch.model,
    )
    optimizer = _make_optimizer(settings, hyperparameters, layers, batch.make_step)
    optimizer.set_loss(tf.add_n(batch.losses))
    pairs = faster_gradients(list(zip(batch.gradients, batch.variables, strict=True)))
    if settings.accumulation_steps is None:
        optimizer.apply_gradients(pairs)
        return tf.constant(True)
    return _accumulate(optimizer, pairs, settings.accumulation_steps)


def _accumulate(optimizer: PeriodicInvCovUpdateKfacOpt, pairs: GradsAndVars, steps: int) -> Tensor:
    """Adds gradients and statistics to sums; makes a step of them each `steps` runs."""
    variables = [variable for _, variable in pairs]
    sums = [
        make_variable(f"{name_of(v)}/gradient_sum", v.shape, v.dtype.base_dtype) for v in variables
    ]
    counter = make_counter("accumulated_batches")
    added = optimizer.accumulate_statistics()
    totals = [read(s) + as_dense(g) for s, (g, _) in zip(sums, pairs, strict=True)]
    number = read(counter) + 1
    is_last = tf.equal(number, steps)

    def step() -> Operation:
        means = [total / tf.constant(steps, total.dtype) for total in totals]
        return optimizer.apply_gradients(list(zip(means, variables, strict=True)))

    with v1.control_dependencies([added]):
        done = run_if(is_last, step)
    with v1.control_dependencies([done]):
        left = [tf.where(is_last, tf.zeros_like(total), total) for total in totals]
        kept = [Assignment(*pair) for pair in zip(sums, left, strict=True)]
        assign_all([*kept, Assignment(counter, tf.where(is_last, tf.zeros_like(number), number))])
    return is_last


def _make_optimizer(
    settings: StepSettings,
    hyperparameters: Hyperparameters,
    layers: LayerCollection,
    make_step: Callable[[GradsAndVars], Operation] | None = None,
) -> PeriodicInvCovUpdateKfacOpt:
    given = hyperparameters
    if settings.given:
        return Preconditioned(
            GivenOptimizer(make_step or group, named_graft(settings.graft)),
            None,
            layer_collection=layers,
            damping=given.damping,
            **settings.arguments,
        )
    arguments = {
        **settings.arguments,
        "damping": given.damping,
        "norm_constraint": given.norm_constraint,
    }
    if given.weight_decay is not None:
        arguments |= {"use_weight_decay": True, "weight_decay_coeff": given.weight_decay}
        arguments["decays"] = given.decays
    if settings.adaptive:
        return adaptive(layers, **arguments)
    return PeriodicInvCovUpdateKfacOpt(
        learning_rate=given.learning_rate,
        momentum=given.momentum,
        layer_collection=layers,
        **arguments,
    )
