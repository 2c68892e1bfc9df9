"""Choice of the momentum rule by the optimizer's arguments, and checks of these.

Called by the optimizer's constructor.
"""

from collections.abc import Callable
from typing import NamedTuple

from kfac._types import DType, Scalar
from kfac.arguments import check_choice, check_excluded, check_number
from kfac.update.momentum.adam import AdamMomentum
from kfac.update.momentum.base import Momentum
from kfac.update.momentum.qmodel import QuadraticModelMomentum
from kfac.update.momentum.regular import RegularMomentum
from kfac.update.quadratic_model import ExactCurvature


class MomentumSettings(NamedTuple):
    """The arguments of the optimizer that matter to its momentum rule.

    Attributes:
      learning_rate: α, or None where the model chooses it.
      momentum: β, or None.
      norm_constraint: c, or None.
      update_rescale: What the model's step is multiplied by, or None.
      weight_decay: Coefficient, or None.
      curvature: The exact curvature.
      dtype: Of variables.
    """

    learning_rate: Scalar | None
    momentum: Scalar | None
    norm_constraint: Scalar | None
    update_rescale: Scalar | None
    weight_decay: Scalar | None
    curvature: ExactCurvature
    dtype: DType


def make_momentum(momentum_type: str, settings: MomentumSettings) -> Momentum:
    """Returns the momentum rule.

    Args:
      momentum_type: One of `MOMENTUM_TYPES`.
      settings: Its arguments.

    Raises:
      ValueError: The type is unknown, a number is out of its range, or an argument does not go
        with the type.
    """
    check_choice("momentum_type", momentum_type, MOMENTUM_TYPES)
    check_number("learning_rate", settings.learning_rate, "> 0", lambda x: x > 0)
    check_number("momentum", settings.momentum, ">= 0, or None", lambda x: x >= 0)
    check_number("norm_constraint", settings.norm_constraint, "> 0, or None", lambda x: x > 0)
    check_number("qmodel_update_rescale", settings.update_rescale, "> 0, or None", lambda x: x > 0)
    return _RULES[momentum_type](momentum_type, settings)


def _given_rate(
    rule: Callable[[Scalar, Scalar | None, Scalar | None, Scalar | None], Momentum],
) -> Callable[[str, MomentumSettings], Momentum]:
    def make(momentum_type: str, settings: MomentumSettings) -> Momentum:
        where = f"momentum_type={momentum_type!r}"
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


def _quadratic(momentum_type: str, settings: MomentumSettings) -> Momentum:
    where = f"momentum_type={momentum_type!r}"
    check_excluded(
        "learning_rate", settings.learning_rate, where, "the model chooses it: pass None"
    )
    check_excluded(
        "norm_constraint", settings.norm_constraint, where, "the model bounds the step: pass None"
    )
    return QuadraticModelMomentum(
        settings.curvature,
        settings.momentum,
        settings.update_rescale,
        settings.weight_decay,
        settings.dtype,
    )


def _chosen_momentum(momentum_type: str, settings: MomentumSettings) -> Momentum:
    check_excluded(
        "momentum",
        settings.momentum,
        f"momentum_type={momentum_type!r}",
        "the model chooses it: pass None, or use 'qmodel_fixedmu'",
    )
    return _quadratic(momentum_type, settings)


def _fixed_momentum(momentum_type: str, settings: MomentumSettings) -> Momentum:
    if settings.momentum is None:
        raise ValueError(
            f"Cannot set up K-FAC: momentum=None with momentum_type={momentum_type!r}. Pass a "
            "number >= 0, a Tensor or a function, or use momentum_type='qmodel', which chooses it."
        )
    return _quadratic(momentum_type, settings)


_RULES = {
    "regular": _given_rate(RegularMomentum),
    "adam": _given_rate(AdamMomentum),
    "qmodel": _chosen_momentum,
    "qmodel_fixedmu": _fixed_momentum,
}

MOMENTUM_TYPES = tuple(_RULES)
"""Values of the optimizers' argument `momentum_type`."""
