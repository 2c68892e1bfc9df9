"""An optimizer of Keras that makes the step of preconditioned gradients.

`Kfac` is compiled with the model, and hands products with the inverse Fisher matrix to the given
one, which keeps its own learning rate and state. Called by the optimizers of `kfac.keras`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Variable
from kfac.arguments import check_excluded
from kfac.linalg.vectors import Vector
from kfac.precondition import check_settings
from kfac.settings import KfacSettings

ApplyGiven = Callable[[Sequence[Vector], Sequence[Variable]], None]
"""A function that lets the given optimizer make its step of gradients and Keras' variables.

It is called in each replica, with the same gradients in all of them.
"""

_ITS_OWN = "the optimizer that is given has its own"


def check_given(
    optimizer: Any, adaptive: bool, numbers: Mapping[str, Scalar | None], settings: Any
) -> None:
    """Checks what goes with a given optimizer, which is one of Keras, but not K-FAC.

    Args:
      optimizer: The optimizer.
      adaptive: The argument of `Kfac`.
      numbers: Learning rate, momentum, weight decay and norm constraint, by name.
      settings: Further arguments, by name.

    Raises:
      ValueError: Two arguments exclude each other, or the optimizer accumulates or scales.
      TypeError: A further argument does not go with it.
    """
    where = f"optimizer={optimizer.name!r}"
    if adaptive:
        raise ValueError(
            f"Cannot set up K-FAC: adaptive=True does not go with {where}, which makes the step. "
            "Leave out one of both, and pass damping with an optimizer."
        )
    for name, value in numbers.items():
        if name != "momentum" or value != KfacSettings.momentum:
            check_excluded(name, value, where, _ITS_OWN)
    for name in ("gradient_accumulation_steps", "loss_scale_factor"):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"Cannot set up K-FAC: {where} has {name}={getattr(optimizer, name)!r}, and gets "
                "gradients that are preconditioned already. Pass gradient_accumulation_steps to "
                "Kfac; losses are not scaled."
            )
    check_settings("Kfac with an optimizer", settings)


def step_of(
    apply: ApplyGiven, strategy: Any, variables: Sequence[Variable]
) -> Callable[[GradsAndVars], Operation]:
    """Returns the function by which K-FAC's step has the given optimizer make its own.

    It is called in the strategy's cross-replica context, with pairs in the order of the variables.
    """

    def apply_gradients(pairs: GradsAndVars) -> Operation:
        gradients = [gradient for gradient, _ in pairs]

        @tf.autograph.experimental.do_not_convert
        def in_replica() -> None:
            apply(gradients, variables)

        strategy.run(in_replica)
        return tf.no_op()

    return apply_gradients
