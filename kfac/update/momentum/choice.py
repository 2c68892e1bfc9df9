"""Choice of the momentum rule by the optimizer's arguments, and checks of these.

Called by the optimizer's constructor.
"""

import dataclasses

from kfac._types import DType, Scalar
from kfac.arguments import check_choice, check_excluded, check_number
from kfac.update.momentum.base import Momentum
from kfac.update.momentum.given_rate import AdamMomentum, RegularMomentum
from kfac.update.momentum.qmodel import QuadraticModelMomentum
from kfac.update.quadratic_model import ExactCurvature

MOMENTUM_TYPES = ("regular", "adam", "qmodel", "qmodel_fixedmu")
"""Values of the optimizers' argument `momentum_type`."""


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
    quadratic = settings.momentum_type.startswith("qmodel")
    return _quadratic_model(settings, curvature) if quadratic else _given_rate(settings)


def _given_rate(settings: MomentumSettings) -> Momentum:
    where = f"momentum_type={settings.momentum_type!r}"
    if settings.learning_rate is None:
        raise ValueError(
            f"Cannot set up K-FAC: learning_rate=None with {where}. Pass a number > 0, a "
            "Tensor or a function, or use momentum_type='qmodel', which chooses it."
        )
    check_excluded(
        "qmodel_update_rescale", settings.update_rescale, where, "scale the learning rate"
    )
    rule = RegularMomentum if settings.momentum_type == "regular" else AdamMomentum
    return rule(
        settings.learning_rate, settings.momentum, settings.norm_constraint, settings.weight_decay
    )


def _quadratic_model(settings: MomentumSettings, curvature: ExactCurvature) -> Momentum:
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
        settings.momentum,
        settings.update_rescale,
        settings.weight_decay,
        settings.dtype,
    )
