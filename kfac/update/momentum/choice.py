"""Choice of the momentum rule by the optimizer's settings, and checks of what goes with it.

Called by the optimizer's constructor.
"""

from collections.abc import Callable

import tensorflow as tf

from kfac._types import Scalar
from kfac.arguments import check_choice, check_excluded
from kfac.schedules import called_once
from kfac.settings import KfacSettings
from kfac.update.momentum.base import Momentum
from kfac.update.momentum.given_rate import AdamMomentum, RegularMomentum
from kfac.update.momentum.qmodel import QuadraticModelMomentum
from kfac.update.quadratic_model import ExactCurvature


def make_momentum(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    """Returns the momentum rule.

    Args:
      settings: Its type and numbers.
      curvature: The exact curvature of the batch, for a rule that chooses its step by it.

    Raises:
      ValueError: The type is unknown, or a setting does not go with it.
    """
    check_choice("momentum_type", settings.momentum_type, MOMENTUM_TYPES)
    return _RULES[settings.momentum_type](settings, curvature)


def _given_rate(
    rule: Callable[[Scalar, Scalar | None, Scalar | None, Scalar | None], Momentum],
) -> Callable[[KfacSettings, ExactCurvature], Momentum]:
    def make(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
        del curvature
        where = f"momentum_type={settings.momentum_type!r}"
        if settings.learning_rate is None:
            raise ValueError(
                f"Cannot set up K-FAC: learning_rate=None with {where}. Pass a number > 0, a "
                "Tensor or a function, or use momentum_type='qmodel', which chooses it."
            )
        check_excluded(
            "qmodel_update_rescale",
            settings.qmodel_update_rescale,
            where,
            "scale the learning rate",
        )
        return rule(
            called_once(settings.learning_rate),
            called_once(settings.momentum),
            called_once(settings.norm_constraint),
            _weight_decay(settings),
        )

    return make


def _quadratic(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    where = f"momentum_type={settings.momentum_type!r}"
    check_excluded(
        "learning_rate", settings.learning_rate, where, "the model chooses it: pass None"
    )
    check_excluded(
        "norm_constraint", settings.norm_constraint, where, "the model bounds the step: pass None"
    )
    return QuadraticModelMomentum(
        curvature,
        called_once(settings.momentum),
        called_once(settings.qmodel_update_rescale),
        _weight_decay(settings),
        tf.as_dtype(settings.dtype),
    )


def _weight_decay(settings: KfacSettings) -> Scalar | None:
    return called_once(settings.weight_decay_coeff) if settings.use_weight_decay else None


def _chosen_momentum(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    check_excluded(
        "momentum",
        settings.momentum,
        f"momentum_type={settings.momentum_type!r}",
        "the model chooses it: pass None, or use 'qmodel_fixedmu'",
    )
    return _quadratic(settings, curvature)


def _fixed_momentum(settings: KfacSettings, curvature: ExactCurvature) -> Momentum:
    if settings.momentum is None:
        where = f"momentum_type={settings.momentum_type!r}"
        raise ValueError(
            f"Cannot set up K-FAC: momentum=None with {where}. Pass a number >= 0, a Tensor or a "
            "function, or use momentum_type='qmodel', which chooses it."
        )
    return _quadratic(settings, curvature)


_RULES = {
    "regular": _given_rate(RegularMomentum),
    "adam": _given_rate(AdamMomentum),
    "qmodel": _chosen_momentum,
    "qmodel_fixedmu": _fixed_momentum,
}

MOMENTUM_TYPES = tuple(_RULES)
"""Values of the optimizers' argument `momentum_type`."""
