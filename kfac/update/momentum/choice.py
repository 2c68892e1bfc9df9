"""Choice of the momentum rule by the optimizer's arguments, and checks of these.

Called by the optimizer's constructor.
"""

import dataclasses
from collections.abc import Callable

from kfac._types import DType, Scalar
from kfac.arguments import check_choice, check_excluded, check_number
from kfac.update.momentum.base import Momentum
from kfac.update.momentum.given_rate import AdamMomentum, RegularMomentum
from kfac.update.momentum.qmodel import QuadraticModelMomentum
from kfac.update.quadratic_model import ExactCurvature


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentumSettings:
    """The arguments of the optimizer that matter to its momentum rule.

    Attributes:
      momentum_type: One of `MOMENTUM_TYPES`.
      learning_rate: α, or None where the model chooses it.
      momentum: β, or None.
      norm_constraint: c, or None.
      update_rescale: Factor of the model's step, or None.
      weight_decay: Coefficient, or None.
      dtype: Dtype of variables.
    """

    momentum_type: str
    learning_rate: Scalar | None
    momentum: Scalar | None
    norm_constraint: Scalar | None
    update_rescale: Scalar | None
    weight_decay: Scalar | None
    dtype: DType


def make_momentum(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
    """Returns the momentum rule.

    Args:
      settings: Its type and arguments.
      curvature: The exact curvature of the batch, for a rule that chooses its step by it.

    Raises:
      ValueError: The type is unknown, a number is out of its range, or an argument does not go
        with the type.
    """
    check_choice("momentum_type", settings.momentum_type, MOMENTUM_TYPES)
    check_number("learning_rate", settings.learning_rate, "> 0", lambda x: x > 0)
    check_number("momentum", settings.momentum, ">= 0, or None", lambda x: x >= 0)
    check_number("norm_constraint", settings.norm_constraint, "> 0, or None", lambda x: x > 0)
    check_number("qmodel_update_rescale", settings.update_rescale, "> 0, or None", lambda x: x > 0)
    return _RULES[settings.momentum_type](settings, curvature)


def _given_rate(
    rule: Callable[[Scalar, Scalar | None, Scalar | None, Scalar | None], Momentum],
) -> Callable[[MomentumSettings, ExactCurvature], Momentum]:
    def make(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
        del curvature
        where = f"momentum_type={settings.momentum_type!r}"
        if settings.learning_rate is None:
            raise ValueError(
                f"Cannot set up K-FAC: learning_rate=None with {where}. Pass a number > 0, a "
                "Tensor or a function, or use momentum_type='qmodel', which chooses it."
            )
        check_excluded(
            "qmodel_update_rescale", settings.update_rescale, where, "scale the learning rate"
        )
        return rule(
            settings.learning_rate,
            settings.momentum,
            settings.norm_constraint,
            settings.weight_decay,
        )

    return make


def _quadratic(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
    where = f"momentum_type={settings.momentum_type!r}"
    check_excluded(
        "learning_rate", settings.learning_rate, where, "the model chooses it: pass None"
    )
    check_excluded(
        "norm_constraint", settings.norm_constraint, where, "the model bounds the step: pass None"
    )
    return QuadraticModelMomentum(
        curvature,
        settings.momentum,
        settings.update_rescale,
        settings.weight_decay,
        settings.dtype,
    )


def _chosen_momentum(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
    check_excluded(
        "momentum",
        settings.momentum,
        f"momentum_type={settings.momentum_type!r}",
        "the model chooses it: pass None, or use 'qmodel_fixedmu'",
    )
    return _quadratic(settings, curvature)


def _fixed_momentum(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
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
