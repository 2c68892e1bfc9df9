"""Registration of losses: one function per kind, which `LayerCollection` has as a method.

All functions have these arguments, in this order, after the parameters of the predicted
distribution:

  seed: Seed of the sampled targets; None derives it from the name and, for losses that are
    evaluated by hand, from the seed of the graph.
  targets: The observed values; needed by estimation_mode="empirical" and `total_loss` only.
  name: Name of the loss. Needed with several towers: equal names are towers of one loss.
  coeff: Weight of this loss among several, > 0.
  reuse: As for layers. True adds a tower to a registered loss. False registers a new one.
    AUTO_REUSE adds a tower if the loss is registered. VARIABLE_SCOPE takes the flag of the current
    variable scope.
  weights: One number per example, or a mask, that multiplies its loss; None means 1. Averages
    still divide by the number of all examples.

All functions raise:

  ValueError: A tower is added without a name, with another coefficient or with another kind of
    loss; the coefficient is not positive; a tensor is of another graph; registration is over.
  KeyError: `reuse` does not fit: the name is unknown, or taken.
  TypeError: A parameter of the predicted distribution is no Tensor.

The formulas of losses are in `kfac.loss_functions`.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.loss_functions import (
    CategoricalLogitsNegativeLogProbLoss,
    LossFunction,
    MultiBernoulliNegativeLogProbLoss,
    NormalMeanNegativeLogProbLoss,
    NormalMeanVarianceNegativeLogProbLoss,
    OnehotCategoricalLogitsNegativeLogProbLoss,
)
from kfac.registration.loss_table import LossTable
from kfac.registration.scope import VARIABLE_SCOPE


def _register(
    table: LossTable,
    kind: Callable[..., LossFunction],
    parameters: tuple[Any, ...],
    seed: int | None,
    targets: Tensor | None,
    name: str | None,
    coeff: float,
    reuse: bool | str,
    weights: Tensor | None,
) -> None:
    """Adds a loss of some kind, after all checks have passed."""
    what = f"loss {name!r}"
    table.scope.check_open(what)
    own = table.resolve_name(name, coeff, reuse)
    loss = kind(*parameters, targets, seed, name=own, weights=weights)
    inputs = tf.nest.flatten(loss.inputs)
    others = [value for value in inputs or [loss.inputs] if not tf.is_tensor(value)]
    if others:
        raise TypeError(
            f"Cannot register {what} with {type(others[0]).__name__}: {others[0]!r}. Accepted for "
            "the predicted distribution are Tensors of the model."
        )
    table.scope.check_graph(what, *inputs)
    table.add(loss, coeff, seed)


def register_categorical_predictive_distribution(
    table: LossTable,
    logits: Tensor,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers a softmax cross-entropy loss, or one more tower of it.

    Logits are [batch, classes], or have more axes in front of the last. Targets are class
    numbers, shaped as the logits without their last axis.
    """
    options = seed, targets, name, coeff, reuse, weights
    _register(table, CategoricalLogitsNegativeLogProbLoss, (logits,), *options)


def register_onehot_categorical_predictive_distribution(
    table: LossTable,
    logits: Tensor,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers a softmax cross-entropy loss whose targets are vectors, or a tower of it.

    Logits are [batch, classes], or have more axes in front of the last. Targets are one-hot
    vectors or probabilities, shaped as the logits.
    """
    options = seed, targets, name, coeff, reuse, weights
    _register(table, OnehotCategoricalLogitsNegativeLogProbLoss, (logits,), *options)


def register_normal_predictive_distribution(
    table: LossTable,
    mean: Tensor,
    var: float = 0.5,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers ‖targets − mean‖²/(2·var), plus a constant, or one more tower of it.

    The mean is [batch, ...]. The targets are shaped as the mean; weights may be, too.

    Raises:
      TypeError: The variance is not a Python number.
      ValueError: The variance is not positive, or as for all losses.
    """
    options = seed, targets, name, coeff, reuse, weights
    _register(table, NormalMeanNegativeLogProbLoss, (mean, var), *options)


def register_squared_error_loss(
    table: LossTable,
    prediction: Tensor,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers ‖targets − prediction‖², plus a constant: a variance of one half.

    See `register_normal_predictive_distribution`.
    """
    register_normal_predictive_distribution(
        table, prediction, 0.5, seed, targets, name, coeff, reuse, weights
    )


def register_normal_mean_variance_predictive_distribution(
    table: LossTable,
    mean: Tensor,
    variance: Tensor,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers the negative log-likelihood of a normal distribution, both parts predicted.

    Mean, variance > 0 and targets are [batch, n]; weights may be, too.
    """
    options = seed, targets, name, coeff, reuse, weights
    _register(table, NormalMeanVarianceNegativeLogProbLoss, (mean, variance), *options)


def register_multi_bernoulli_predictive_distribution(
    table: LossTable,
    logits: Tensor,
    seed: int | None = None,
    targets: Tensor | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    reuse: bool | str = VARIABLE_SCOPE,
    weights: Tensor | None = None,
) -> None:
    """Registers a sigmoid cross-entropy loss, or one more tower of it.

    Logits are [batch, ...]. Targets are in [0, 1] and shaped as the logits; weights may be, too.
    """
    options = seed, targets, name, coeff, reuse, weights
    _register(table, MultiBernoulliNegativeLogProbLoss, (logits,), *options)
