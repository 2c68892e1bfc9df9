"""Optimizers by name, with all their settings: seven of `tf.compat.v1.train`, and K-FAC.

Makes an optimizer from settings, and registers a model with K-FAC. Learning rates come from
`schedules.py`; `training.py` applies the gradients.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

import kfac
import model_deploy

v1 = tf.compat.v1
Tensor = Any
Variable = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Name of an optimizer and its settings. The fields are flags of the same names.

    Attributes:
      optimizer: One of OPTIMIZERS.
      adadelta_rho: Weight of the past in adadelta's averages.
      adagrad_initial_accumulator_value: Initial value of adagrad's sums.
      adam_beta1: Weight of the past in adam's average of gradients.
      adam_beta2: The same for their squares.
      opt_epsilon: Added to a divisor in adadelta, adam and rmsprop.
      ftrl_learning_rate_power: Power of the accumulated squares that divides ftrl's rate.
      ftrl_initial_accumulator_value: Initial value of ftrl's sums.
      ftrl_l1: Strength of ftrl's L1 penalty.
      ftrl_l2: Strength of ftrl's L2 penalty.
      momentum: Of momentum.
      rmsprop_momentum: Of rmsprop.
      rmsprop_decay: Weight of the past in rmsprop's average of squares.
      kfac_damping: λ of kfac.
      kfac_momentum: Of kfac.
      kfac_cov_ema_decay: Weight of the past in kfac's curvature.
      kfac_norm_constraint: Bound of the squared Fisher norm of kfac's step; None for none.
      kfac_invert_every: Steps between two inversions of kfac's factors.
      kfac_cov_update_every: Steps between two updates of them.
    """

    optimizer: str
    adadelta_rho: float
    adagrad_initial_accumulator_value: float
    adam_beta1: float
    adam_beta2: float
    opt_epsilon: float
    ftrl_learning_rate_power: float
    ftrl_initial_accumulator_value: float
    ftrl_l1: float
    ftrl_l2: float
    momentum: float
    rmsprop_momentum: float
    rmsprop_decay: float
    kfac_damping: float
    kfac_momentum: float
    kfac_cov_ema_decay: float
    kfac_norm_constraint: float | None
    kfac_invert_every: int
    kfac_cov_update_every: int


def make_optimizer(settings: OptimizerSettings, learning_rate: Tensor) -> v1.train.Optimizer:
    """Makes the optimizer that the settings name.

    K-FAC takes the graph's layer collection, which `register_layers` fills.

    Raises:
      ValueError: The name is unknown, or a setting is out of its range.
    """
    if settings.optimizer not in OPTIMIZERS:
        raise ValueError(
            f"Unknown optimizer {settings.optimizer!r}; known are {', '.join(OPTIMIZERS)}."
        )
    return OPTIMIZERS[settings.optimizer](settings, learning_rate)


def register_layers(
    clones: Sequence[model_deploy.Clone],
    losses: Callable[[Any], Mapping[str, tuple[Tensor, float]]],
    variables: Sequence[Variable],
) -> None:
    """Registers the layers of all clones of a model with K-FAC.

    Args:
      clones: Of the model.
      losses: Outputs of a clone -> name -> (logits [batch, classes], weight of the loss).
      variables: The variables to train.
    """
    layers = kfac.graph_layer_collection()
    layers.set_default_scale_and_shift_approximation("diagonal")  # Batch norm has many channels.
    for index, clone in enumerate(clones):
        with v1.name_scope(clone.scope), v1.device(clone.device):
            for name, (logits, weight) in losses(clone.outputs).items():
                layers.register_categorical_predictive_distribution(
                    logits, name=name, coeff=weight, reuse=index > 0
                )
    layers.auto_register_layers(variables)


def _adadelta(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.AdadeltaOptimizer(rate, settings.adadelta_rho, settings.opt_epsilon)


def _adagrad(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.AdagradOptimizer(rate, settings.adagrad_initial_accumulator_value)


def _adam(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.AdamOptimizer(
        rate, settings.adam_beta1, settings.adam_beta2, settings.opt_epsilon
    )


def _ftrl(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.FtrlOptimizer(
        rate,
        learning_rate_power=settings.ftrl_learning_rate_power,
        initial_accumulator_value=settings.ftrl_initial_accumulator_value,
        l1_regularization_strength=settings.ftrl_l1,
        l2_regularization_strength=settings.ftrl_l2,
    )


def _kfac(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=settings.kfac_invert_every,
        cov_update_every=settings.kfac_cov_update_every,
        learning_rate=rate,
        damping=settings.kfac_damping,
        momentum=settings.kfac_momentum,
        cov_ema_decay=settings.kfac_cov_ema_decay,
        norm_constraint=settings.kfac_norm_constraint,
        layer_collection=kfac.graph_layer_collection(),
    )


def _momentum(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.MomentumOptimizer(rate, settings.momentum)


def _rmsprop(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    return v1.train.RMSPropOptimizer(
        rate, settings.rmsprop_decay, settings.rmsprop_momentum, settings.opt_epsilon
    )


def _sgd(settings: OptimizerSettings, rate: Tensor) -> v1.train.Optimizer:
    del settings
    return v1.train.GradientDescentOptimizer(rate)


OPTIMIZERS: Mapping[str, Callable[[OptimizerSettings, Tensor], v1.train.Optimizer]] = (
    MappingProxyType(
        {
            "adadelta": _adadelta,
            "adagrad": _adagrad,
            "adam": _adam,
            "ftrl": _ftrl,
            "kfac": _kfac,
            "momentum": _momentum,
            "rmsprop": _rmsprop,
            "sgd": _sgd,
        }
    )
)
"""Name -> function of settings and learning rate."""
