"""Choice of the momentum rule by the optimizer's settings, and checks of what goes with it.

Called by the optimizer's constructor.
"""

import tensorflow as tf

from kfac._types import Scalar
from kfac.arguments import check_choice, check_excluded
from kfac.computed_settings import called_once
from kfac.settings import KfacSettings
from kfac.update.momentum.qmodel import ExactCurvature, QuadraticModelMomentum
from kfac.update.momentum.rules import AdamMomentum, Momentum, RegularMomentum

MOMENTUM_TYPES = ("regular", "adam", "qmodel", "qmodel_fixedmu")
"""Values of the optimizers' argument `momentum_type`."""


def make_momentum(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    """Returns the momentum rule.

    The exact curvature of the batch is for a rule that chooses its step by it.

    Raises:
      ValueError: The type is unknown, or a setting does not go with it.
    """
    check_choice("momentum_type", settings.momentum_type, MOMENTUM_TYPES)
    by_model = settings.momentum_type.startswith("qmodel")
    return _by_model(settings, curvature) if by_model else _with_given_rate(settings)


def _with_given_rate(settings: KfacSettings) -> Momentum:
    where = f"momentum_type={settings.momentum_type!r}"
    if settings.learning_rate is None:
        raise ValueError(
            f"Cannot set up K-FAC: learning_rate=None with {where}. Pass a number > 0, a "
            "Tensor or a function, or use momentum_type='qmodel', which chooses it."
        )
    remedy = "scale the learning rate"
    check_excluded("qmodel_update_rescale", settings.qmodel_update_rescale, where, remedy)
    rule = RegularMomentum if settings.momentum_type == "regular" else AdamMomentum
    return rule(
        called_once(settings.learning_rate),
        called_once(settings.momentum),
        called_once(settings.norm_constraint),
        _weight_decay(settings),
    )


def _by_model(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    where = f"momentum_type={settings.momentum_type!r}"
    if settings.momentum_type == "qmodel":
        remedy = "the model chooses it: pass None, or use 'qmodel_fixedmu'"
        check_excluded("momentum", settings.momentum, where, remedy)
    elif settings.momentum is None:
        raise ValueError(
            f"Cannot set up K-FAC: momentum=None with {where}. Pass a number >= 0, a Tensor or a "
            "function, or use momentum_type='qmodel', which chooses it."
        )
    remedy = "the model chooses it: pass None"
    check_excluded("learning_rate", settings.learning_rate, where, remedy)
    remedy = "the model bounds the step: pass None"
    check_excluded("norm_constraint", settings.norm_constraint, where, remedy)
    return QuadraticModelMomentum(
        curvature,
        called_once(settings.momentum),
        called_once(settings.qmodel_update_rescale),
        _weight_decay(settings),
        tf.as_dtype(settings.dtype),
    )


def _weight_decay(settings: KfacSettings) -> Scalar | None:
    return called_once(settings.weight_decay_coeff) if settings.use_weight_decay else None
